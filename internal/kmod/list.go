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

// ErrSyntax is returned for a file whose content is not in the format that the kernel writes.
var ErrSyntax = errors.New("not in the kernel's format")

// A listEntry is a line of /proc/modules.
type listEntry struct {
	name string
	size uint64 // in bytes: text, data and read-only data together
	addr uint64 // of the text; 0 if the module has none or the kernel hides it
	live bool   // initialized, and not being removed
	init bool   // not initialized yet
}

// parseList reads /proc/modules. A line is "NAME SIZE REFERENCES USERS STATE ADDRESS", followed by
// the taints that the module causes (m_show in kernel/module/procfs.c).
func parseList(r io.Reader) ([]listEntry, error) {
	var list []listEntry
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
		name := strings.Clone(fields[0]) // so that the rest of the line can be freed
		list = append(list, listEntry{name: name, size: size, addr: addr, live: fields[4] == "Live", init: fields[4] == "Loading"})
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("after %d lines: %w", len(list), err)
	}
	return list, nil
}
