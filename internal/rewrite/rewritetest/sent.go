// SPDX-License-Identifier: Apache-2.0

package rewritetest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pprofile"
)

// CheckSent is [Run.Check] for a run of one message.
func CheckSent(pd pprofile.Profiles) error { return new(Run).Check(pd) }

// A Run is everything that is sent out between a start and an end. Backends keep the name that they
// first got for a frame, so messages must agree about it. The zero value is an empty run.
type Run struct{ names frameNames }

// Check returns an error for each rule of the format that a message breaks, for each demand of a
// backend on its kernel frames that it does not meet, and for each frame that had another name
// before in this run. User-space frames are up to their producer.
func (r *Run) Check(pd pprofile.Profiles) error {
	if err := CheckValid(pd); err != nil {
		return err
	}
	errs := []error{CheckTyped(pd, nil)}
	for _, text := range slices.Sorted(refusals(pd, false).all()) {
		errs = append(errs, errors.New(text))
	}
	profiler := usersOf(pd, isProfilers)
	for i := range pd.Dictionary().LocationTable().Len() {
		f := FrameAt(pd.Dictionary(), int32(i))
		if profiler[int32(i)] || !isKernel(&f) {
			continue
		}
		errs = append(errs, r.names.add(&f))
		for _, line := range f.Lines {
			if line.Name != "" && line.System == "" {
				errs = append(errs, fmt.Errorf("contract 3.4: %s has no system name", line.Name))
			}
		}
	}
	return errors.Join(errs...)
}

// CheckTyped returns an error for each frame of this kernel that is part of a sample but has
// neither a name nor a frame type: Elastic's exporter and devfiler refuse a whole profile for such
// a frame (contract 4.1). Samples do not count if isForeign reports that their resource is another
// host's.
func CheckTyped(pd pprofile.Profiles, isForeign func(pprofile.ResourceProfiles) bool) error {
	var errs []error
	ours := usersOf(pd, func(rp pprofile.ResourceProfiles, _ pprofile.ScopeProfiles) bool {
		return isForeign == nil || !isForeign(rp)
	})
	d := pd.Dictionary()
	for i, loc := range d.LocationTable().All() {
		f := FrameAt(d, int32(i))
		if !ours[int32(i)] || keysOf(d, loc.AttributeIndices())[keyFrameType] > 0 || !isKernel(&f) || isNamed(&f) {
			continue
		}
		ids := keysOf(d, entry(d.MappingTable(), loc.MappingIndex(), pprofile.NewMapping).AttributeIndices())
		if ids[keyBuildID]+ids[keyFileID] == 0 { // otherwise, it may be foreign
			errs = append(errs, fmt.Errorf("contract 4.1: no frame type: location %d, %+v", i, f))
		}
	}
	return errors.Join(errs...)
}

// usersOf returns the locations that occur in samples of the scopes for which is returns true.
func usersOf(pd pprofile.Profiles, is func(pprofile.ResourceProfiles, pprofile.ScopeProfiles) bool) map[int32]bool {
	users := make(map[int32]bool)
	stacks := make(map[int32]bool)
	for _, rp := range pd.ResourceProfiles().All() {
		for _, sp := range rp.ScopeProfiles().All() {
			if !is(rp, sp) {
				continue
			}
			for _, profile := range sp.Profiles().All() {
				for _, s := range profile.Samples().All() {
					stacks[s.StackIndex()] = true
				}
			}
		}
	}
	table := pd.Dictionary().StackTable()
	for i := range stacks {
		if uint(i) < uint(table.Len()) {
			for _, at := range table.At(int(i)).LocationIndices().All() {
				users[at] = true
			}
		}
	}
	return users
}

// isProfilers reports whether a scope belongs to the OTel eBPF profiler or to a fork. Its addresses
// are ip-1, even if a frame is looked up at ip (contract 2.2, 4.1).
func isProfilers(_ pprofile.ResourceProfiles, sp pprofile.ScopeProfiles) bool {
	name := sp.Scope().Name()
	return strings.HasPrefix(name, "go.opentelemetry.io/ebpf-profiler") || name == "parca-agent" ||
		name[strings.LastIndexByte(name, '/')+1:] == "ebpf-profiler"
}

// isKernel reports whether a frame is kernel code according to its own data, and not of a virtual
// machine (contract 1.1).
func isKernel(f *Frame) bool {
	file := ""
	if f.Mapping != nil {
		file = f.Mapping.File
	}
	base := file[strings.LastIndexByte(file, '/')+1:]
	switch {
	case strings.HasPrefix(file, "[guest.kernel"):
		return false
	case f.Type != "":
		return f.Type == "kernel"
	case file == "":
		const vsyscall, page = 0xffffffffff600000, 1 << 12
		return f.Address>>63 != 0 && f.Address < 1<<64-page && (f.Address < vsyscall || f.Address >= vsyscall+page)
	}
	return strings.HasPrefix(file, "[kernel") || file == "[bpf]" || strings.HasPrefix(file, "bpf_prog_") ||
		base == "vmlinux" || strings.HasPrefix(base, "vmlinux-") || strings.HasSuffix(base, ".ko")
}

// placeholder matches a name that says nothing (contract 1.2).
var placeholder = regexp.MustCompile(`^(UNKNOWN|\[unknown\]|\[symbolication_failed\]|\[?\[kernel\.kallsyms\]\]?|0x[[:xdigit:]]{0,64}|[[:xdigit:]]{16})?$`)

// isNamed reports whether a frame has a name that is not just a placeholder.
func isNamed(f *Frame) bool {
	return slices.ContainsFunc(f.Lines, func(l Line) bool { return !placeholder.MatchString(l.Name) })
}

// frameNames maps frames to their names. A frame is identified as Elastic and devfiler identify it.
type frameNames map[frameID]string

type frameID struct {
	file    string
	address uint64
}

// add returns an error if a frame had another name before. Two frames at the address where a
// function ends, a caller and an exact one, have two names. They also have two addresses if these
// are relative, and two files if each function has its own.
func (n *frameNames) add(f *Frame) error {
	m := f.Mapping
	if m == nil || m.FileID == "" || m.Limit != 0 && !strings.HasPrefix(m.File, "[") || !isNamed(f) {
		return nil
	}
	outermost := f.Lines[len(f.Lines)-1]
	if outermost.System == "" {
		return nil // kernelsym did not write it
	}
	if *n == nil {
		*n = make(frameNames)
	}
	id := frameID{m.FileID, f.Address}
	if had, ok := (*n)[id]; ok && had != outermost.System {
		return fmt.Errorf("contract 4.1: %s+%#x (file ID %s) is %s and %s", m.File, f.Address, m.FileID, had, outermost.System)
	}
	(*n)[id] = outermost.System
	return nil
}
