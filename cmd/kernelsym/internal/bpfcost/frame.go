// SPDX-License-Identifier: Apache-2.0

package bpfcost

import (
	"strings"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// part is the role of a code in a program's cost.
type part struct {
	cost     *Cost // nil if the code belongs to no program or trampoline
	line     Line
	isFirst  bool // it is the first byte of its function
	isBridge bool // only trampolines call it
	isBPF    bool // it belongs to a program, not to a trampoline
}

// parts are those of a message, by the numbers of its codes.
type parts struct {
	counter *Counter
	named   *rewrite.Named
	known   map[int]*part
}

// at returns the part of the code with a number.
func (p *parts) at(number int) *part {
	is := p.known[number]
	if is == nil {
		code := p.named.Code(number)
		is = p.counter.newPart(&code)
		p.known[number] = is
	}
	return is
}

func (c *Counter) newPart(code *rewrite.Code) *part {
	image := code.Image
	if image == nil || !code.HasName() {
		return new(part)
	}
	symbol := image.SymbolName(code.Symbol).Name
	if !image.IsFunction() {
		return &part{isBridge: image.Origin == timeline.OriginKernel && isBridge(symbol)}
	}
	key := Key{Symbol: symbol}
	if image.Program != nil {
		key = Key{ID: image.Program.ID}
	}
	p := part{
		cost: c.cost(key), line: Line{code.Lines[0].File, code.Lines[0].Number},
		isFirst: code.Address == 0, isBPF: image.Origin == timeline.OriginBPF,
	}
	p.cost.describe(symbol, image.Program)
	return &p
}

// isBridge reports whether only trampolines call a function, around a program (bpf_trampoline_enter
// and bpf_trampoline_exit in kernel/bpf/trampoline.c).
func isBridge(name string) bool {
	return strings.HasPrefix(name, "__bpf_prog_enter") || strings.HasPrefix(name, "__bpf_prog_exit") ||
		strings.HasPrefix(name, "__bpf_tramp_")
}

// describe notes what a function says about its program, which is nil if it is not known. The name is that of the
// program's main function, whose tag is the program's.
func (c *Cost) describe(symbol string, program *timeline.Program) {
	tag, name := cutSymbol(symbol)
	switch {
	case tag == "":
		c.Name = symbol
		c.Type = kindOf(symbol)
	case program == nil:
		c.Name, c.Tag = name, tag
	default:
		c.Tag, c.Type = program.Tag, program.Type
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
