// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"errors"
	"fmt"

	"github.com/kernelsym/kernelsym/internal/bpf"
)

// missing says why something is not known.
type missing struct {
	records error // why they are refused; programs are polled
	list    error // why programs could not be listed,
	program error // and why one could not be asked for
	tail    error // of the end of /proc/kallsyms
}

// again reports whether programs are to be listed again, as that may tell more.
func (m *missing) again() bool {
	return m.program != nil || m.list != nil && !errors.Is(m.list, bpf.ErrUnsupported)
}

// err returns what is missing from the table, and what to do about it.
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
	if m.tail != nil {
		add("some BPF trampolines and out-of-line pages have no names: %w", m.tail)
	}
	return errors.Join(errs...)
}
