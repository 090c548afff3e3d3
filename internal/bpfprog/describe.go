// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/btf"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// function is a function of a program, as the kernel describes it.
type function struct {
	*timeline.Image
	// mayBeNameless says that the kernel has no name for the function if its program was loaded
	// without CAP_BPF (bpf_prog_kallsyms_add in kernel/bpf/core.c), which the kernel does not say.
	mayBeNameless bool
	// first is the symbol that the first function of a program of several has beside the program's own,
	// up to Linux 6.0: the kernel records that one. It is empty for others.
	first string
}

// functions appends those of a program, which are there since an instant: all of them, or none
// with an error.
func (d *describer) functions(to []function, p *bpf.Program, since int64) ([]function, error) {
	all := to
	program := &timeline.Program{ID: p.ID, Type: p.TypeName()}
	for i := range p.Functions {
		f := &p.Functions[i]
		symbol, err := d.symbol(p, i)
		if err != nil {
			return to, err
		}
		var lines *symtab.Lines
		if len(p.Lines) > 0 { // which are wanted
			types, err := d.readBTF(p.BTF)
			if err != nil {
				return to, err
			}
			lines = linesOf(p, f, types)
		}
		m := timeline.NewFunction(timeline.OriginBPF, symbol, f.Addr, f.Len, since)
		if i == 0 {
			program.Tag = m.Tag() // a part of the name, which is kept anyway
		}
		if f.Len > 0 {
			all = append(all, function{m.WithProgram(program, lines), d.anybody && mayBeNameless(p), d.firstSymbol(p, i)})
			program.Functions++
		}
	}
	return all, nil
}

// mayBeNameless reports whether a program may have been loaded without CAP_BPF: only programs
// of two types can, and no program of several functions (bpf_prog_load in
// kernel/bpf/syscall.c, check_subprogs in kernel/bpf/verifier.c).
func mayBeNameless(p *bpf.Program) bool {
	const socketFilter, cgroupSKB = 1, 8 // enum bpf_prog_type
	return (p.Type == socketFilter || p.Type == cgroupSKB) && len(p.Functions) == 1
}

// anybodyLoads reports whether the sysctl kernel.unprivileged_bpf_disabled allows programs
// to be loaded without CAP_BPF. If it cannot be read, it may.
func anybodyLoads(procfs string) bool {
	const name = "sys/kernel/unprivileged_bpf_disabled"
	text, err := os.ReadFile(filepath.Join(procfs, name))
	if err != nil { // not all of the host's /proc is there: it is the same kernel
		text, err = os.ReadFile("/proc/" + name)
	}
	return err != nil || strings.TrimSpace(string(text)) == "0"
}

// describer reads what the kernel tells of programs, and their BTF.
type describer struct {
	programs Programs
	want     bpf.Want
	procfs   string
	anybody  bool   // programs of some types can be loaded without CAP_BPF
	buffer   []byte // of the last symbol

	btfID uint32            // of the last one that was read
	btf   *btf.BTF          // nil if it could not be
	names map[uint32]string // of its functions; nil while not read
}

// readBTF returns the BTF with an id, valid until it returns another.
func (d *describer) readBTF(id uint32) (*btf.BTF, error) {
	if id == d.btfID && d.btf != nil {
		return d.btf, nil
	}
	types, err := d.programs.BTF(id)
	d.btfID, d.btf, d.names = id, types, nil
	if err != nil {
		d.btf = nil
		return nil, err
	}
	return types, nil
}

// symbol returns the kernel's symbol for function i (bpf_get_prog_name in
// kernel/bpf/core.c).
func (d *describer) symbol(p *bpf.Program, i int) (string, error) {
	tag := p.Tag // of the main one, also where there are others
	if i > 0 {
		tag = p.Functions[i].Tag
	}
	d.buffer = hex.AppendEncode(append(d.buffer[:0], "bpf_prog_"...), tag[:])
	name, err := d.functionName(p, i)
	if name != "" {
		d.buffer = append(append(d.buffer, '_'), name...)
	}
	return string(d.buffer), err
}

// firstSymbol returns the symbol of a program's first function that is not the program's own, empty if
// function i has none: jit_subprogs in kernel/bpf/verifier.c gives each function of a program a tag
// of its own.
func (d *describer) firstSymbol(p *bpf.Program, i int) string {
	if i > 0 || len(p.Functions) < 2 || p.Functions[0].Tag == p.Tag {
		return ""
	}
	name, err := "F", error(nil)
	if t := p.Functions[0].Type; t != 0 {
		name, err = d.nameOf(p.BTF, t)
	}
	if err != nil {
		return "" // symbol has failed, too
	}
	return "bpf_prog_" + hex.EncodeToString(p.Functions[0].Tag[:]) + "_" + name
}

// functionName returns what the kernel calls function i: by the program's BTF, if that
// describes it.
func (d *describer) functionName(p *bpf.Program, i int) (string, error) {
	switch t := p.Functions[i].Type; {
	case t != 0:
		return d.nameOf(p.BTF, t)
	case i == 0:
		return p.Name, nil
	}
	return "F", nil // jit_subprogs in kernel/bpf/verifier.c
}

// nameOf returns the name of a function in the BTF with an id.
func (d *describer) nameOf(id, function uint32) (string, error) {
	types, err := d.readBTF(id)
	if err != nil {
		return "", err
	}
	if d.names == nil {
		d.names, err = types.FunctionNames() // with an error, the first of them
	}
	name, ok := d.names[function]
	if !ok {
		return "", fmt.Errorf("BTF %d: type %d is no function: %w", id, function, cmp.Or(err, btf.ErrMalformed))
	}
	return name, nil
}

// linesOf returns the source lines of a function, nil if there are none. The kernel takes file
// names of any bytes.
func linesOf(p *bpf.Program, function *bpf.Function, types *btf.BTF) *symtab.Lines {
	var b symtab.LinesBuilder
	for i := range p.Lines {
		l := &p.Lines[i]
		if offset := l.Addr - function.Addr; offset < uint64(function.Len) {
			b.Add(uint32(offset), l.LineCol, strings.ToValidUTF8(types.String(l.File), "\uFFFD"))
		}
	}
	return b.Build()
}
