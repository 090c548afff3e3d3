package bpfprog

import (
	"encoding/hex"
	"strings"
	"time"
	"unique"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// describe takes over what the kernel tells of a program that was loaded at an instant,
// and reports whether anything is new.
func (f *follower) describe(p *bpf.Program, at int64) (changed bool) {
	if len(p.Functions) == 0 {
		return false
	}
	// The tag is a part of the main function's name, which is kept anyway.
	symbol := unique.Make(f.describer.symbol(p, 0))
	program := &symtab.Program{ID: p.ID, Type: p.TypeName(), Tag: symtab.TagOf(symbol.Value())}
	for i := range p.Functions {
		function := &p.Functions[i]
		if function.Len == 0 {
			continue
		}
		there := f.functions.At(function.Addr)
		switch {
		case there == nil || !isFunction(there, function, p.ID):
			f.functions.Load(f.listed(p, i, at).Of(program, f.describer.linesOf(p, function)))
			f.stats.Updated(symcache.KindLoad, 1, time.Time{})
		case there.Program != nil && there.Program.Type != "":
			continue // it is known
		default:
			f.functions.Replace(there, f.described(there, p, i).Of(program, f.describer.linesOf(p, function)))
			f.stats.Updated(symcache.KindSymbols, 1, time.Time{})
		}
		changed = true
	}
	return changed
}

// isFunction reports whether a function that is there is that of the program with
// that id.
func isFunction(there *symtab.Function, function *bpf.Function, id uint32) bool {
	return there.Start == function.Addr && there.Size == function.Len && !there.Guessed &&
		(there.Program == nil || there.Program.ID == id)
}

// described returns a function, which a record has named, with the name that is
// right: from Linux 5.7 to 6.0, all functions of a program have that of the main one, and
// the record can have been another's, of the same tag. What a kernel has cut off, at
// 128 bytes before 6.1, stays so.
func (f *follower) described(there *symtab.Function, p *bpf.Program, i int) *symtab.Function {
	const shortest = 127
	symbol, was := f.describer.symbol(p, i), there.Name()
	if was == symbol || len(was) >= shortest && strings.HasPrefix(symbol, was) {
		return there
	}
	described := symtab.NewFunction(symtab.OriginBPF, symbol, there.Start, there.Size, there.Valid)
	described.Slack = there.Slack
	return described
}

// listed returns a function of a program that no record has named, and that was there
// at an instant. Loading begins at the program's LoadTime and takes time, seconds if it
// is large, in which its memory can still be another's. Whose it was then, if another's
// end was missed, is not known: it has no name.
func (f *follower) listed(p *bpf.Program, i int, at int64) *symtab.Function {
	function := &p.Functions[i]
	start, end := function.Addr, function.Addr+uint64(function.Len)
	listed := symtab.NewFunction(symtab.OriginBPF, f.describer.symbol(p, i), start, function.Len, symtab.Since(at))
	if there := f.functions.At(start); there != nil && there.Guessed && there.Start == start && isNamed(there, listed.Name()) {
		listed.Valid, listed.Slack = there.Valid, there.Slack // only its size was not known
		return listed
	}
	maybe := p.LoadTime
	if f.listedAt != 0 {
		maybe = max(maybe, f.resyncs.certain) // later than that no record was missing
	}
	if f.makeRoom(start, end, max(p.LoadTime, f.resyncs.certain)) {
		maybe = at
	}
	maybe = min(at, max(maybe, f.functions.FreeSince(start, end)))
	if loaded := p.LoadTime + int64(maxSlack); loaded < at {
		listed.Valid.From = max(maybe, loaded) // no program takes that long to load
	}
	listed.Slack = symtab.NewSlack(time.Duration(listed.Valid.From-maybe), 0)
	return listed
}

// describer reads what the kernel tells of programs, and their BTF.
type describer struct {
	programs Programs
	lines    bool

	btfID uint32 // of the last one that was read
	btf   *bpf.BTF
	names map[uint32]string // of its functions; nil while not read
}

func (d *describer) want() bpf.Want {
	if d.lines {
		return bpf.WantFunctions | bpf.WantLines
	}
	return bpf.WantFunctions
}

// readBTF returns a program's BTF, nil if it has none that can be read.
func (d *describer) readBTF(id uint32) *bpf.BTF {
	if id == 0 {
		return nil
	}
	if id != d.btfID {
		btf, err := d.programs.BTF(id)
		if err != nil {
			btf = nil
		}
		d.btfID, d.btf, d.names = id, btf, nil
	}
	return d.btf
}

// tag returns the tag that stands in the kernel's symbol for function i. That of
// the main one is the program's, also where there are others.
func (d *describer) tag(p *bpf.Program, i int) string {
	if i == 0 {
		return hex.EncodeToString(p.Tag[:])
	}
	return hex.EncodeToString(p.Functions[i].Tag[:])
}

// symbol returns the kernel's symbol for function i (bpf_get_prog_name in
// kernel/bpf/core.c).
func (d *describer) symbol(p *bpf.Program, i int) string {
	name := d.functionName(p, i)
	if name == "" {
		return "bpf_prog_" + d.tag(p, i)
	}
	return "bpf_prog_" + d.tag(p, i) + "_" + name
}

func (d *describer) functionName(p *bpf.Program, i int) string {
	if t := p.Functions[i].Type; t != 0 {
		if btf := d.readBTF(p.BTF); btf != nil {
			if d.names == nil {
				d.names, _ = btf.FunctionNames() // with an error, the first of them
			}
			if name, ok := d.names[t]; ok {
				return name
			}
		}
	}
	if i == 0 {
		return p.Name
	}
	return "F" // jit_subprogs in kernel/bpf/verifier.c
}

// linesOf returns the source lines of a function, nil if there are none or they are
// not wanted.
func (d *describer) linesOf(p *bpf.Program, function *bpf.Function) *symtab.Lines {
	if len(p.Lines) == 0 {
		return nil
	}
	btf := d.readBTF(p.BTF)
	if btf == nil {
		return nil
	}
	var b symtab.LinesBuilder
	for i := range p.Lines {
		l := &p.Lines[i]
		if offset := l.Addr - function.Addr; offset < uint64(function.Len) {
			b.Add(uint32(offset), l.LineCol, btf.String(l.File))
		}
	}
	return b.Build()
}
