// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unique"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/btf"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A function is the kernel's description of a function of a program.
type function struct {
	image *timeline.Image // always with a program

	// mayBeNameless says that the kernel has no name for the function if its program was loaded
	// without CAP_BPF (bpf_prog_kallsyms_add in kernel/bpf/core.c), which the kernel does not report.
	mayBeNameless bool

	// firstSymbol is the symbol that the first function of a program of several has beside the program's own,
	// up to Linux 6.0: the kernel records that one. It is empty for other functions.
	firstSymbol string
}

// asListed returns the image of a function that only a list has shown.
func (f *function) asListed() *timeline.Image {
	if !f.mayBeNameless {
		return f.image
	}
	m := f.image.WithName("", 0)
	m.MayBeNameless = true
	return m
}

// A querier turns the kernel's answers about programs into functions.
type querier struct {
	programs          ProgramReader
	want              bpf.Want
	procfs            string
	pace              func() // is called while lines are read, which takes long
	mayBeUnprivileged bool   // see the function of this name
	buffer            []byte // for symbols

	btfID     uint32         // of the BTF that was read last
	btf       *btf.BTF       // nil if it could not be read
	functions *btf.Functions // of it; nil until they are needed
}

// linesPerPace is the number of lines between two calls of pace.
const linesPerPace = 1 << 10

// appendFunctions appends the functions of a program, loaded since an instant: all of them or, with an error, none.
func (q *querier) appendFunctions(to []function, p *bpf.Program, since int64) ([]function, error) {
	lines, err := q.linesOf(p)
	if err != nil {
		return to, err
	}
	all := to
	program := &timeline.Program{ID: p.ID, Type: p.TypeName()}
	for i := range p.Functions {
		f := &p.Functions[i]
		symbol, err := q.symbol(p, i)
		if err != nil {
			return to, err
		}
		m := timeline.NewFunction(timeline.OriginBPF, symbol, f.Addr, f.Len, since).WithType(f.Type)
		if i == 0 {
			program.Tag = m.Tag() // part of the name, which is kept in memory anyway
		}
		if f.Len > 0 {
			all = append(all, function{
				image: m.WithProgram(program, lines[i]), mayBeNameless: q.mayBeUnprivileged && mayBeNameless(p),
				firstSymbol: q.firstSymbol(p, i),
			})
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

// mayBeUnprivileged reports whether programs may be loaded without CAP_BPF, according to the sysctl
// kernel.unprivileged_bpf_disabled. If that cannot be read, they may.
func mayBeUnprivileged(procfs string) bool {
	const name = "sys/kernel/unprivileged_bpf_disabled"
	text, err := os.ReadFile(filepath.Join(procfs, name))
	if err != nil { // parts of the host's /proc may not be mounted; this process has the same kernel
		text, err = os.ReadFile("/proc/" + name)
	}
	return err != nil || strings.TrimSpace(string(text)) == "0"
}

// readBTF returns the BTF with an id. It is valid until the next call.
func (q *querier) readBTF(id uint32) (*btf.BTF, error) {
	if id == q.btfID && q.btf != nil {
		return q.btf, nil
	}
	types, err := q.programs.BTF(id)
	q.btfID, q.btf, q.functions = id, types, nil
	if err != nil {
		q.btf = nil
		return nil, err
	}
	return types, nil
}

// symbol returns the kernel's symbol for function i (bpf_get_prog_name in
// kernel/bpf/core.c).
func (q *querier) symbol(p *bpf.Program, i int) (string, error) {
	tag := p.Tag // of the main function, even if there are others
	if i > 0 {
		tag = p.Functions[i].Tag
	}
	q.buffer = hex.AppendEncode(append(q.buffer[:0], "bpf_prog_"...), tag[:])
	name, err := q.functionName(p, i)
	if name != "" {
		q.buffer = append(append(q.buffer, '_'), name...)
	}
	return string(q.buffer), err
}

// firstSymbol returns the symbol of a program's first function that is not the program's own. It is empty if
// function i has no such symbol: jit_subprogs in kernel/bpf/verifier.c gives each function of a program a tag
// of its own.
func (q *querier) firstSymbol(p *bpf.Program, i int) string {
	if i > 0 || len(p.Functions) < 2 || p.Functions[0].Tag == p.Tag {
		return ""
	}
	name, err := "F", error(nil)
	if t := p.Functions[0].Type; t != 0 {
		name, err = q.nameInBTF(p.BTF, t)
	}
	if err != nil {
		return "" // symbol has failed, too
	}
	return "bpf_prog_" + hex.EncodeToString(p.Functions[0].Tag[:]) + "_" + name
}

// functionName returns the kernel's name for function i, which it reads from the program's BTF if the program has any.
func (q *querier) functionName(p *bpf.Program, i int) (string, error) {
	switch t := p.Functions[i].Type; {
	case t != 0:
		return q.nameInBTF(p.BTF, t)
	case i == 0:
		return p.Name, nil
	}
	return "F", nil // jit_subprogs in kernel/bpf/verifier.c
}

// nameInBTF returns the name of a function in the BTF with an id.
func (q *querier) nameInBTF(id, function uint32) (string, error) {
	types, err := q.readBTF(id)
	if err != nil {
		return "", err
	}
	if q.functions == nil {
		var functions btf.Functions
		functions, err = types.Functions() // with an error, those before it
		q.functions = &functions
	}
	name, ok := q.functions.Name(function)
	if !ok {
		return "", fmt.Errorf("BTF %d: type %d is no function: %w", id, function, cmp.Or(err, btf.ErrMalformed))
	}
	return name, nil
}

// linesOf returns the source lines of each function of a program, nil for those without any.
func (q *querier) linesOf(p *bpf.Program) ([]*symtab.Lines, error) {
	lines := make([]*symtab.Lines, len(p.Functions))
	if len(p.Lines) == 0 || len(p.Functions) == 0 { // they may not be wanted
		return lines, nil
	}
	types, err := q.readBTF(p.BTF)
	if err != nil {
		return nil, err
	}
	files := files{types: types, byOffset: make(map[uint32]unique.Handle[string])}
	builders := make([]symtab.LinesBuilder, len(p.Functions))
	f := 0 // the kernel lists the lines of a function one after the other
	for i := range p.Lines {
		if i%linesPerPace == 0 {
			q.pace()
		}
		l := &p.Lines[i]
		if !hasLine(&p.Functions[f], l) {
			next := slices.IndexFunc(p.Functions, func(f bpf.Function) bool { return hasLine(&f, l) })
			if next < 0 {
				continue
			}
			f = next
		}
		builders[f].Add(uint32(l.Addr-p.Functions[f].Addr), l.LineCol, files.at(l.File))
	}
	for i := range builders {
		lines[i] = builders[i].Build()
		q.pace()
	}
	return lines, nil
}

// hasLine reports whether a line is one of a function.
func hasLine(f *bpf.Function, l *bpf.Line) bool { return l.Addr-f.Addr < uint64(f.Len) }

// files are the source files of a program.
type files struct {
	types    *btf.BTF
	byOffset map[uint32]unique.Handle[string] // their names, by the offsets of these
}

// maxFiles is the maximum number of files. A name takes some 200 bytes in addition to its own.
const maxFiles = 1 << 10

// at returns the name at an offset. It is empty if there is none, or maxFiles are known that have others. The kernel accepts
// names with any bytes.
func (f *files) at(offset uint32) unique.Handle[string] {
	if name, ok := f.byOffset[offset]; ok || len(f.byOffset) == maxFiles {
		return cmp.Or(name, noName)
	}
	name := unique.Make(strings.ToValidUTF8(f.types.String(offset), "\uFFFD"))
	if name != noName {
		f.byOffset[offset] = name
	}
	return name
}

var noName = unique.Make("")
