// SPDX-License-Identifier: Apache-2.0

package kallsyms

import (
	"errors"
	"fmt"
	"io"

	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// The errors about the list as a whole.
var (
	// ErrRestricted is returned for a list in which every address is zero. The kernel decides
	// this when the file is opened (kallsyms_show_value in kernel/ksyms_common.c).
	ErrRestricted = errors.New("the kernel hides its addresses (every address in kallsyms is zero): " +
		"grant CAP_SYSLOG and set the sysctl kernel.kptr_restrict to 0 or 1")

	// ErrBPFHidden says that the list has no BPF code, although some is loaded that has symbols.
	ErrBPFHidden = errors.New("the kernel leaves BPF code out of kallsyms")

	// ErrNoText is returned for a list without the symbols that mark the ends of the kernel's
	// text: the list is truncated, or not a kernel's.
	ErrNoText = errors.New("the list of kernel symbols is incomplete: " +
		"_text or _stext, _etext, or _einittext is missing")
)

// ParseCore reads the symbols of the core kernel and makes the image "vmlinux" from them. arch
// is the kernel's architecture, named as in GOARCH. The image covers the text, from the lower
// of _text and _stext to _etext, and the init text, from _sinittext to _einittext, if that lies
// above the text (see contract 3.2). ParseCore reads no further.
func ParseCore(r io.Reader, arch, buildID, fileID string) (*timeline.Image, error) {
	p := coreParser{scanner: NewScanner(r)}
	p.marks.Arch = arch
	if err := p.text(); err != nil {
		return nil, err
	}
	end, gap, err := p.initText()
	if err != nil {
		return nil, err
	}
	marks := p.marks // a copy: a pointer into p would keep its buffers alive
	text, err := p.builder.Build(symtab.TextInfo{
		BuildID:   buildID,
		FileID:    fileID,
		Base:      p.start,
		Start:     p.start,
		End:       end,
		Gap:       gap,
		Landmarks: &marks,
	})
	if err != nil {
		return nil, fmt.Errorf("core kernel: %w", err)
	}
	if p.fred != 0 {
		marks.Fred = extentOf(text, p.fred)
	}
	marks.Thunks = p.thunkRanges(text)
	return timeline.NewImage(timeline.OriginKernel, timeline.KernelName, text, timeline.Always), nil
}

// extentOf returns the range of the symbol at an address. The range is empty if there is no
// symbol.
func extentOf(text *symtab.Text, addr uint64) symtab.Range {
	symbol := text.Lookup(addr)
	return symtab.Range{Start: symbol.Start, End: symbol.End()}
}

// coreParser reads the text of the core kernel, then its init text.
type coreParser struct {
	scanner    *Scanner
	builder    symtab.Builder
	marks      symtab.Landmarks
	fred       uint64   // address of asm_fred_entrypoint_kernel, 0 if there is none
	thunks     []uint64 // addresses of thunks, without duplicates
	start, end uint64   // bounds of the text; 0 until they are read
	initBelow  bool     // the init text lies below the end of the text
}

// text reads the list up to _etext.
func (p *coreParser) text() error {
	var line Line
	anyAddr := false // an address other than 0 was read
	for lines := 0; p.end == 0; lines++ {
		switch err := p.scanner.Scan(&line); {
		case errors.Is(err, io.EOF) || err == nil && len(line.Module) > 0:
			if lines > 0 && !anyAddr {
				return ErrRestricted
			}
			return ErrNoText
		case err != nil:
			return err
		}
		anyAddr = anyAddr || line.Addr != 0
		p.builder.Add(line.Addr, line.Type, line.Name)
		p.noteThunk(&line)
		if p.note(&line) && !anyAddr {
			return ErrRestricted // the rest need not be read
		}
	}
	if p.start == 0 {
		return ErrNoText
	}
	return nil
}

// note records the addresses of landmarks, and reports whether the line begins the text.
func (p *coreParser) note(line *Line) (begins bool) {
	switch string(line.Name) {
	case "_text", "_stext":
		if p.start == 0 {
			p.start = line.Addr
			p.builder.StartAt(line.Addr)
		}
		return true
	case "_etext":
		p.end = line.Addr
	case "_sinittext":
		p.initBelow = true
	case "__entry_text_start":
		p.marks.Entry.Start = line.Addr
	case "__entry_text_end":
		p.marks.Entry.End = line.Addr
	case "asm_fred_entrypoint_kernel":
		p.fred = line.Addr
	case "arch_alloc_bpf_trampoline":
		// Every architecture with its own version allocates trampolines from a pack
		// (bpf_prog_pack_alloc): x86 since 6.8, later arm64, riscv, powerpc and loongarch. The
		// version in kernel/bpf/trampoline.c, which allocates a page, is a weak symbol.
		p.marks.SharedTrampolines = line.Type == 'T' || line.Type == 't'
	}
	return false
}

// noteThunk records an indirect or return thunk of x86 (see contract 2.3).
func (p *coreParser) noteThunk(line *Line) {
	if !isThunk(line.Name) || !symtab.IsCode(line.Type) || p.marks.Arch != "amd64" {
		return
	}
	if n := len(p.thunks); n == 0 || p.thunks[n-1] != line.Addr {
		p.thunks = append(p.thunks, line.Addr)
	}
}

// thunkRanges returns the ranges that the thunks cover. It merges adjacent ranges.
func (p *coreParser) thunkRanges(m *symtab.Text) (ranges []symtab.Range) {
	for _, addr := range p.thunks {
		r := extentOf(m, addr)
		switch n := len(ranges); {
		case r.Start == r.End:
		case n > 0 && ranges[n-1].End == r.Start:
			ranges[n-1].End = r.End
		default:
			ranges = append(ranges, r)
		}
	}
	return ranges
}

// isThunk reports whether a name is a thunk's. It checks the first letter first, because it is
// called for every symbol of the kernel.
func isThunk(name []byte) bool {
	switch name[0] {
	case 's':
		return begins(name, "srso_")
	case 'r':
		return begins(name, "retbleed_")
	case 'i':
		return begins(name, "its_")
	case '_':
		if begins(name, "__pi_") {
			return isThunk(name[len("__pi_"):])
		}
		return begins(name, "__x86_indirect_") || string(name) == "__x86_return_thunk"
	}
	return false
}

// begins reports whether a name has a prefix and is longer.
func begins(name []byte, prefix string) bool {
	return len(name) > len(prefix) && string(name[:len(prefix)]) == prefix
}

// initText reads up to _einittext, and returns the end of the image and the gap between the
// text and the init text. It skips the lines in the gap, which are data symbols.
func (p *coreParser) initText() (end uint64, gap symtab.Range, err error) {
	if p.initBelow {
		return p.end, gap, nil
	}
	var line Line
	switch err := p.scanner.skipTo("_sinittext", &line); {
	case errors.Is(err, io.EOF):
		return p.end, gap, nil // there is no init text
	case err != nil:
		return 0, gap, err
	}
	gap = symtab.Range{Start: p.end, End: line.Addr}
	for string(line.Name) != "_einittext" {
		p.builder.Add(line.Addr, line.Type, line.Name)
		switch err := p.scanner.Scan(&line); {
		case errors.Is(err, io.EOF) || err == nil && len(line.Module) > 0:
			return 0, gap, ErrNoText
		case err != nil:
			return 0, gap, err
		}
	}
	return line.Addr, gap, nil
}
