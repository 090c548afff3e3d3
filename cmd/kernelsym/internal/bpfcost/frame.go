// SPDX-License-Identifier: Apache-2.0

package bpfcost

import (
	"fmt"
	"strings"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/profilefile"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// part is the role of a frame in a program's cost.
type part struct {
	cost     *Cost // nil if the frame belongs to no program or trampoline
	line     Line
	isEntry  bool // it is in entry code
	isThunk  bool // it is in an indirect or return thunk
	isFirst  bool // it is the first byte of its function
	isBridge bool // only trampolines call it
	isBPF    bool // it belongs to a program, not to a trampoline
}

func (c *Counter) part(f *profilefile.KernelFrame) part {
	p := part{line: Line{f.File, f.Line}}
	switch {
	case f.Module == timeline.KernelName:
		p.isBridge = isBridge(f.Name)
		if c.core != nil {
			addr := c.core.Base() + f.Address
			p.isEntry, p.isThunk = c.core.Text.Landmarks.IsEntry(addr), c.core.Text.Landmarks.IsThunk(addr)
		}
		return p
	case f.Module != "[bpf]" || f.Name == "":
		return p
	}
	key := Key{Symbol: f.Name}
	if f.Program != nil {
		key = Key{ID: f.Program.ID}
	}
	p.isFirst = f.Address == 0
	p.isBPF = strings.HasPrefix(f.Name, "bpf_prog_")
	p.cost = c.cost(key)
	p.cost.describe(f)
	return p
}

// isBridge reports whether only trampolines call a function, around a program (bpf_trampoline_enter
// and bpf_trampoline_exit in kernel/bpf/trampoline.c).
func isBridge(name string) bool {
	return strings.HasPrefix(name, "__bpf_prog_enter") || strings.HasPrefix(name, "__bpf_prog_exit") ||
		strings.HasPrefix(name, "__bpf_tramp_")
}

// describe copies a frame's description of its program. The name is that of the program's main
// function, whose tag is the program's.
func (c *Cost) describe(f *profilefile.KernelFrame) {
	tag, name := cutSymbol(f.Name)
	switch {
	case tag == "":
		c.Name = f.Name
		c.Type = kindOf(f.Name)
	case f.Program == nil:
		c.Name, c.Tag = name, tag
	default:
		c.Tag, c.Type = f.Program.Tag, f.Program.Type
		if tag == c.Tag {
			c.Name = name
		}
	}
}

// cutSymbol returns the parts of a function's symbol, bpf_prog_<tag>_<name>.
func cutSymbol(symbol string) (tag, name string) {
	tag = timeline.TagOf(symbol)
	if tag == "" {
		return "", ""
	}
	_, rest, _ := strings.Cut(symbol, tag)
	return tag, strings.TrimPrefix(rest, "_")
}

// kindOf returns the kind of code that the kernel makes for programs. It is empty for other code.
func kindOf(symbol string) string {
	for _, kind := range [...]string{"trampoline", "dispatcher"} {
		if strings.HasPrefix(symbol, "bpf_"+kind+"_") {
			return kind
		}
	}
	return ""
}

// partsOf returns the parts of a stack, leaf first.
func partsOf(stack pprofile.Stack, parts []part) ([]part, error) {
	indices := stack.LocationIndices()
	of := make([]part, 0, indices.Len())
	for _, loc := range indices.All() {
		if uint(loc) >= uint(len(parts)) {
			return nil, fmt.Errorf("%w: location %d", profilefile.ErrInvalid, loc)
		}
		of = append(of, parts[loc])
	}
	return of, nil
}
