// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ErrSyntax says that a file is not what the kernel writes.
var ErrSyntax = errors.New("not in the kernel's format")

// listed is a line of /proc/modules.
type listed struct {
	name string
	size uint64 // in bytes: text, data and read-only data together
	addr uint64 // of the text; 0 if the module has none or the kernel hides it
	live bool   // initialized, and not being removed
}

// parseList reads /proc/modules: "NAME SIZE REFERENCES USERS STATE ADDRESS", and
// the taints that the module causes (m_show in kernel/module/procfs.c).
func parseList(r io.Reader) ([]listed, error) {
	var list []listed
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		fields := strings.Fields(scanner.Text())
		if len(fields) < 6 {
			return nil, fmt.Errorf("line %d: %w: %.80q", len(list)+1, ErrSyntax, scanner.Text())
		}
		size, sizeErr := strconv.ParseUint(fields[1], 10, 64)
		addr, addrErr := strconv.ParseUint(strings.TrimPrefix(fields[5], "0x"), 16, 64)
		if err := errors.Join(sizeErr, addrErr); err != nil {
			return nil, fmt.Errorf("line %d: %w: %w", len(list)+1, ErrSyntax, err)
		}
		name := strings.Clone(fields[0]) // not the whole line with it
		list = append(list, listed{name: name, size: size, addr: addr, live: fields[4] == "Live"})
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("after %d lines: %w", len(list), err)
	}
	return list, nil
}
