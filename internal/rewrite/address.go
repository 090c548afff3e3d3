// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"strconv"
	"strings"

	"github.com/kernelsym/kernelsym/internal/otlp"
	"github.com/kernelsym/kernelsym/internal/symbolize"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// addressForm says how the address of a location counts, and with that, what its mapping says.
type addressForm uint8

const (
	fromBase    addressForm = iota // it counts from the base of the image
	inMemory                       // it is the address in memory
	withoutBase                    // the same, for code that has no relative form; the mapping has no ids
	hidden                         // it is 0, for code that has no relative form; there is no mapping
)

// outAddress returns the address that is written for a frame whose image is known (contract 4.1). It reports
// false for a relative frame whose address has no relative form.
func (p *pass) outAddress(f *symbolize.Frame, role symbolize.Role, a *symbolize.Answer) (addr uint64, form addressForm, ok bool) {
	isEBPF := role.Producer == symbolize.EBPFProfiler
	switch {
	case p.kernel.Snapshot().IsShared(a.Image): // it may be in another image of this name (see contract 3.5)
		if p.opts.Addresses == KeepAddresses {
			return f.Address, withoutBase, f.IsAbsolute()
		}
		return 0, fromBase, true
	case f.IsAbsolute() && p.opts.Addresses == KeepAddresses:
		return f.Address, inMemory, true
	case !f.IsAbsolute() && (isEBPF || f.IsLookedUpForm()):
		return f.Address, fromBase, true
	}
	addr = a.Address
	if isEBPF { // it writes ip-1 for every frame, and so do we
		addr = f.Address
	}
	if base := a.Image.Base(); base != 0 && addr >= base {
		return addr - base, fromBase, true
	}
	if p.hides() {
		return 0, hidden, f.IsAbsolute()
	}
	return f.Address, withoutBase, f.IsAbsolute()
}

// mappingFor returns the content of the mapping for addresses in an image (contract 4.2, 4.3). For the flags, see
// contract 4.4.
func mappingFor(image *timeline.Image, form addressForm, flags otlp.Flags) (c otlp.Mapping) {
	c.File = fileOf(image)
	switch form {
	case withoutBase:
		return c
	case inMemory:
		c.Start, c.Limit, c.FileID = image.Start, image.End, image.LoadedFileID()
	default:
		c.FileID = image.FileID()
	}
	c.BuildID = image.BuildID()
	if c.FileID != "" { // devfiler refuses attributes without one
		c.Flags = flags
	}
	return c
}

// fileOf returns the file name of an image's mapping: its name or, for code that belongs to no module, what
// /proc/kallsyms has in brackets.
func fileOf(image *timeline.Image) string {
	switch {
	case !image.IsFunction():
		return image.Name()
	case image.Origin != timeline.OriginOOL:
		return "[bpf]"
	case strings.HasPrefix(image.Name(), "ftrace"):
		return "[__builtin__ftrace]"
	}
	return "[__builtin__kprobes]"
}

// isRight reports whether a mapping that a location came with can stay in place of the one that is wanted.
func isRight(is, want *otlp.Mapping) bool {
	if is.File != want.File || is.BuildID != want.BuildID || is.FileID != want.FileID || is.Offset != want.Offset {
		return false
	}
	if want.FileID == "" && (is.Flags != want.Flags || is.HasMore) {
		return false
	}
	for i, flag := range is.Flags { // a flag that is wanted may be missing, but none may be wrong
		if flag != otlp.FlagAbsent && want.Flags[i] != otlp.FlagAbsent && flag != want.Flags[i] {
			return false
		}
	}
	if want.IsOffsets() {
		return is.IsOffsets()
	}
	return is.Start <= want.Start && want.Limit <= is.Limit
}

// label returns the name for an address in an image that has no symbol there.
func label(image *timeline.Image, addr uint64) string {
	base := image.Base()
	if addr < base {
		return image.Name() + "-0x" + strconv.FormatUint(base-addr, 16)
	}
	return image.Name() + "+0x" + strconv.FormatUint(addr-base, 16)
}

// isLabel reports whether a name is a label for an address in an image with a file name.
func isLabel(name, file string) bool {
	offset, ok := strings.CutPrefix(name, file)
	if !ok || file == "" || !strings.HasPrefix(offset, "+0x") && !strings.HasPrefix(offset, "-0x") {
		return false
	}
	_, err := strconv.ParseUint(offset[len("+0x"):], 16, 64)
	return err == nil
}
