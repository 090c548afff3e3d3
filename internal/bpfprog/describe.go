// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/btf"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// function is a function of a program, as the kernel describes it.
type function struct {
	*symtab.Image
	// unsure says that the kernel has given it no name if its program was loaded without
	// CAP_BPF (bpf_prog_kallsyms_add in kernel/bpf/core.c), which nobody can tell.
	unsure bool
}

// functions appends those of a program, which are there since an instant.
func (d *describer) functions(to []function, p *bpf.Program, since int64) []function {
	if len(p.Functions) == 0 {
		return to
	}
	program := &symtab.Program{ID: p.ID, Type: p.TypeName(), Single: len(p.Functions) == 1}
	for i := range p.Functions {
		f := &p.Functions[i]
		m := symtab.NewFunction(symtab.OriginBPF, d.symbol(p, i), f.Addr, f.Len, since)
		if i == 0 {
			program.Tag = m.Tag() // a part of the name, which is kept anyway
		}
		if f.Len > 0 {
			to = append(to, function{m.Of(program, d.linesOf(p, f)), d.anybody && isUnsure(p)})
		}
	}
	return to
}

// isUnsure reports whether a program may have been loaded without CAP_BPF: only programs
// of two types can, and no program of several functions (bpf_prog_load in
// kernel/bpf/syscall.c, check_subprogs in kernel/bpf/verifier.c).
func isUnsure(p *bpf.Program) bool {
	const socketFilter, cgroupSKB = 1, 8 // enum bpf_prog_type
	return (p.Type == socketFilter || p.Type == cgroupSKB) && len(p.Functions) == 1
}

// anybodyLoads reports whether the sysctl kernel.unprivileged_bpf_disabled allows programs
// to be loaded without CAP_BPF. If it cannot be read, it may.
func anybodyLoads(procfs string) bool {
	text, err := os.ReadFile(filepath.Join(procfs, "sys", "kernel", "unprivileged_bpf_disabled"))
	return err != nil || strings.TrimSpace(string(text)) == "0"
}

// describer reads what the kernel tells of programs, and their BTF.
type describer struct {
	programs Programs
	want     bpf.Want
	procfs   string
	anybody  bool   // programs of some types can be loaded without CAP_BPF
	buffer   []byte // of the last symbol

	btfID uint32 // of the last one that was read
	btf   *btf.BTF
	names map[uint32]string // of its functions; nil while not read
}

// readBTF returns a program's BTF, nil if it has none that can be read.
func (d *describer) readBTF(id uint32) *btf.BTF {
	if id == 0 {
		return nil
	}
	if id != d.btfID {
		types, err := d.programs.BTF(id)
		if err != nil {
			types = nil
		}
		d.btfID, d.btf, d.names = id, types, nil
	}
	return d.btf
}

// symbol returns the kernel's symbol for function i (bpf_get_prog_name in
// kernel/bpf/core.c).
func (d *describer) symbol(p *bpf.Program, i int) string {
	tag := p.Tag // of the main one, also where there are others
	if i > 0 {
		tag = p.Functions[i].Tag
	}
	d.buffer = hex.AppendEncode(append(d.buffer[:0], "bpf_prog_"...), tag[:])
	if name := d.functionName(p, i); name != "" {
		d.buffer = append(append(d.buffer, '_'), name...)
	}
	return string(d.buffer)
}

func (d *describer) functionName(p *bpf.Program, i int) string {
	if t := p.Functions[i].Type; t != 0 {
		if types := d.readBTF(p.BTF); types != nil {
			if d.names == nil {
				d.names, _ = types.FunctionNames() // with an error, the first of them
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
	types := d.readBTF(p.BTF)
	if types == nil {
		return nil
	}
	var b symtab.LinesBuilder
	for i := range p.Lines {
		l := &p.Lines[i]
		if offset := l.Addr - function.Addr; offset < uint64(function.Len) {
			b.Add(uint32(offset), l.LineCol, types.String(l.File))
		}
	}
	return b.Build()
}
