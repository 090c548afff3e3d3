// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"os"
	"regexp"
	"slices"
	"strings"
)

// The marks that replace removed text.
const (
	addressMark = "[address]"
	hostMark    = "[host]"
)

// A scrubber removes kernel addresses and the names of a host from a report.
type scrubber struct {
	hosts *regexp.Regexp // nil if there are none
}

// A name with fewer than short bytes is replaced only where it is a whole word, because it can be
// part of other words by chance.
const short = 4

func newScrubber(hosts []string) scrubber {
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
		return scrubber{}
	}
	return scrubber{regexp.MustCompile("(?i)" + strings.Join(patterns, "|"))}
}

// report returns a scrubbed copy of a report. Checks, levels, and the names and build ids of code are as they were.
func (s scrubber) report(r Report) Report {
	r.Procfs, r.Sysfs = s.text(r.Procfs), s.text(r.Sysfs)
	r.Findings = each(r.Findings, func(f Finding) Finding {
		f.Found, f.Lost, f.Remedy = s.text(f.Found), s.text(f.Lost), each(f.Remedy, s.text)
		return f
	})
	r.Details.Sources = each(r.Details.Sources, func(source Source) Source {
		source.Error = s.text(source.Error)
		return source
	})
	r.Details.Metrics = each(r.Details.Metrics, s.text)
	environment := make(Environment)
	for section, texts := range r.Details.Environment {
		for name, text := range texts {
			environment.add(section, name, s.text(text))
		}
	}
	r.Details.Environment = environment
	return r
}

// each returns the results of f, and nil for no elements.
func each[T any](list []T, f func(T) T) (all []T) {
	for _, v := range list {
		all = append(all, f(v))
	}
	return all
}

// digits matches a hexadecimal number with at least as many digits as a kernel address.
var digits = regexp.MustCompile(`(?i)(?:0x)?([0-9a-f]{16,})`)

// within matches a kernel address in a longer run of digits.
var within = regexp.MustCompile(`(?i)ffff[0-9a-f]{12}`)

// text returns text without kernel addresses, which are in the upper half of the address space, and names of the host.
func (s scrubber) text(text string) string {
	text = digits.ReplaceAllStringFunc(text, func(n string) string {
		if run := digits.FindStringSubmatch(n)[1]; len(run) == 16 && run[0] >= '8' {
			return addressMark
		}
		return within.ReplaceAllString(n, addressMark)
	})
	if s.hosts != nil {
		text = s.hosts.ReplaceAllString(text, hostMark)
	}
	return text
}

// hostNames returns the names that the kernel and Kubernetes have for this host, in full and
// without the domain.
func hostNames() (names []string) {
	host, _ := os.Hostname() // without a name, there is nothing to remove
	for _, name := range []string{host, os.Getenv("HOSTNAME"), os.Getenv("K8S_NODE_NAME"), os.Getenv("NODE_NAME")} {
		first, _, _ := strings.Cut(name, ".")
		for _, name := range []string{name, first} {
			if name != "" && name != "localhost" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
