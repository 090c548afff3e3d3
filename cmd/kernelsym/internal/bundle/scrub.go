// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The marks that replace removed text.
const (
	addressMark = "[address]"
	hostMark    = "[host]"
)

// A scrubber removes kernel addresses and the names of a host from text.
type scrubber struct {
	hosts *regexp.Regexp // nil if there are none
}

// A name with fewer than short bytes is replaced only where it is a whole word, because it can be
// part of other words by chance.
const short = 4

func newScrubber(hosts []string) *scrubber {
	var patterns []string
	slices.SortFunc(hosts, func(a, b string) int { return len(b) - len(a) }) // a name before any part of it
	for _, name := range hosts {
		pattern := regexp.QuoteMeta(name)
		if len(name) < short {
			pattern = `\b` + pattern + `\b`
		}
		patterns = append(patterns, pattern)
	}
	if len(patterns) == 0 {
		return &scrubber{}
	}
	return &scrubber{hosts: regexp.MustCompile("(?i)" + strings.Join(patterns, "|"))}
}

// number matches decimal and hexadecimal numbers, and parts of words that look like them.
var number = regexp.MustCompile(`-?(?:0[xX])?[0-9a-fA-F]+`)

// within matches a kernel address in a longer run of digits, such as after the escape \u003c.
var within = regexp.MustCompile(`(?i)ffff[0-9a-f]{12}`)

// scrub returns text without kernel addresses and names of the host.
func (s *scrubber) scrub(text []byte) []byte {
	text = number.ReplaceAllFunc(text, func(n []byte) []byte {
		if isKernelAddress(string(n)) {
			return []byte(addressMark)
		}
		return within.ReplaceAll(n, []byte(addressMark))
	})
	if s.hosts != nil {
		text = s.hosts.ReplaceAll(text, []byte(hostMark))
	}
	return text
}

// isKernelAddress reports whether a number is in the upper half of the address space. Other numbers
// can look like an address, such as the tag of a BPF program.
func isKernelAddress(n string) bool {
	const digits = 16
	hex := strings.TrimPrefix(strings.ToLower(strings.TrimPrefix(n, "-")), "0x")
	if len(hex) == digits && hex[0] >= '8' {
		return true
	}
	const highest = -1 << 20 // of signed numbers; higher ones are error numbers and the like
	if signed, err := strconv.ParseInt(n, 10, 64); err == nil {
		return signed < highest
	}
	decimal, err := strconv.ParseUint(n, 10, 64)
	return err == nil && decimal >= 1<<63
}

// hostNames returns the names that the kernel and Kubernetes have for this host, in full and
// without the domain.
func hostNames() []string {
	var names []string
	add := func(name string) {
		if name != "" && name != "localhost" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	host, _ := os.Hostname() // without a name, there is nothing to remove
	for _, name := range []string{host, os.Getenv("HOSTNAME"), os.Getenv("K8S_NODE_NAME"), os.Getenv("NODE_NAME")} {
		add(name)
		first, _, _ := strings.Cut(name, ".")
		add(first)
	}
	return names
}
