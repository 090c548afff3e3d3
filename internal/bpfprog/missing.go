// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"errors"
	"fmt"

	"github.com/kernelsym/kernelsym/internal/bpf"
)

// missing has the reasons why a table is incomplete. Each is nil if nothing is missing because of it.
type missing struct {
	records  error // the kernel refuses records, so programs are polled
	list     error // programs cannot be listed
	program  error // a program could not be queried
	kallsyms error // the end of /proc/kallsyms could not be read
	traced   error // the functions of trampolines could not be found
}

// mayEnd reports whether listing the programs again may complete the table.
func (m *missing) mayEnd() bool {
	return m.program != nil || m.list != nil && !errors.Is(m.list, bpf.ErrUnsupported)
}

// isEverything reports whether the kernel refuses records as well as lists.
func (m *missing) isEverything() bool {
	return m.records != nil && isRefused(m.list) && !errors.Is(m.list, bpf.ErrUnsupported)
}

// err says why the table is incomplete, and what the operator can do about it.
func (m *missing) err() error {
	var errs []error
	add := func(format string, err error) { errs = append(errs, fmt.Errorf(format, err)) }
	switch {
	case m.list == nil:
	case errors.Is(m.list, bpf.ErrUnsupported): // a kernel without BPF
		return nil
	case isRefused(m.list):
		add("BPF programs loaded before the start have no names: %w", m.list)
	default:
		add("listing BPF programs failed; retrying within a minute: %w", m.list)
	}
	if m.records != nil {
		add("falling back to polling BPF programs; short-lived programs and trampolines have no names: %w", m.records)
	}
	if m.program != nil {
		add("some BPF programs could not be queried; retrying within a minute: %w", m.program)
	}
	if m.kallsyms != nil {
		add("some BPF trampolines and out-of-line pages have no names: %w", m.kallsyms)
	}
	if m.traced != nil {
		add("some BPF trampolines have no names, as their functions are not known: %w", m.traced)
	}
	return errors.Join(errs...)
}
