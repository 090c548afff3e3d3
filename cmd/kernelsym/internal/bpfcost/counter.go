package bpfcost

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/profilefile"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// A Counter counts the samples of programs.
type Counter struct {
	core    *symtab.Image // of the last message
	costs   map[Key]*Cost
	samples int64 // all
	running int64 // those in a program or in what it called
	leaves  bool  // of some messages, nothing but Self is known
}

// A Key tells programs and trampolines apart: by the program's id, else by the kernel's symbol.
type Key struct {
	ID     uint32
	Symbol string
}

// A Cost is what was sampled of a program or trampoline.
type Cost struct {
	Tag, Type, Name string // as the profile has them; empty if it does not

	Self, Total, Interrupted int64 // samples

	lines map[Line]int64 // samples of Total with a source line
}

// A Line is a source line.
type Line struct {
	File string
	Line int64
}

// NewCounter returns a counter without samples.
func NewCounter() *Counter { return &Counter{costs: make(map[Key]*Cost)} }

// Add counts the samples of a named message, whose addresses are relative. core is the kernel
// that they are of; without it, or where it does not say where its entry code lies, only Self
// is counted, as nothing else would be certain. The error wraps profilefile.ErrInvalid.
func (c *Counter) Add(pd pprofile.Profiles, core *symtab.Image) error {
	if c.core = core; core == nil || core.Landmarks == nil || core.Entry == (symtab.Range{}) {
		c.core, c.leaves = nil, true
	}
	frames, err := profilefile.KernelFrames(pd)
	if err != nil {
		return err
	}
	parts := make([]part, len(frames))
	for i := range frames {
		parts[i] = c.part(&frames[i])
	}
	stacks := pd.Dictionary().StackTable()
	for _, rp := range pd.ResourceProfiles().All() {
		for _, sp := range rp.ScopeProfiles().All() {
			for _, p := range sp.Profiles().All() {
				for _, s := range p.Samples().All() {
					if uint(s.StackIndex()) >= uint(stacks.Len()) {
						return fmt.Errorf("%w: stack %d", profilefile.ErrInvalid, s.StackIndex())
					}
					stack, err := partsOf(stacks.At(int(s.StackIndex())), parts)
					if err != nil {
						return err
					}
					c.addStack(stack, profilefile.Weight(s))
				}
			}
		}
	}
	return nil
}

// Merge adds what another counter has counted.
func (c *Counter) Merge(o *Counter) {
	c.samples, c.running, c.leaves = c.samples+o.samples, c.running+o.running, c.leaves || o.leaves
	for key, from := range o.costs {
		to := c.cost(key)
		to.Tag, to.Type, to.Name = cmp.Or(from.Tag, to.Tag), cmp.Or(from.Type, to.Type), cmp.Or(from.Name, to.Name)
		to.Self, to.Total, to.Interrupted = to.Self+from.Self, to.Total+from.Total, to.Interrupted+from.Interrupted
		for line, n := range from.lines {
			to.lines[line] += n
		}
	}
}

func (c *Counter) cost(key Key) *Cost {
	cost := c.costs[key]
	if cost == nil {
		cost = &Cost{lines: make(map[Line]int64)}
		c.costs[key] = cost
	}
	return cost
}

// Samples returns the number of samples, and of those in a program or in what it called.
func (c *Counter) Samples() (all, running int64) { return c.samples, c.running }

// OnlySelf reports whether Total and Interrupted are not known.
func (c *Counter) OnlySelf() bool { return c.leaves }

// Costs returns what was sampled. It is the counter's, and changes with Add.
func (c *Counter) Costs() map[Key]*Cost { return c.costs }

// part is what a frame is to a program's cost.
type part struct {
	cost     *Cost // nil if the frame is of no program or trampoline
	line     Line
	isEntry  bool // it is in entry code
	isThunk  bool // it is in an indirect or return thunk
	isFirst  bool // it is the first byte of its function
	isBridge bool // a trampoline calls it, nothing else does
	isBPF    bool // it is a program's, not a trampoline's
}

func (c *Counter) part(f *profilefile.KernelFrame) part {
	p := part{line: Line{f.File, f.Line}}
	switch {
	case f.Module == symtab.KernelName:
		p.isBridge = isBridge(f.Name)
		if c.core != nil {
			addr := c.core.Base + f.Address
			p.isEntry, p.isThunk = c.core.IsEntry(addr), c.core.IsThunk(addr)
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

// isBridge reports whether a function is one that trampolines call around a program
// (bpf_trampoline_enter and bpf_trampoline_exit in kernel/bpf/trampoline.c), and nothing else.
func isBridge(name string) bool {
	return strings.HasPrefix(name, "__bpf_prog_enter") || strings.HasPrefix(name, "__bpf_prog_exit") ||
		strings.HasPrefix(name, "__bpf_tramp_")
}

// describe takes what a frame says of its program. The name is that of its main function,
// whose tag is the program's.
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
	tag = symtab.TagOf(symbol)
	if tag == "" {
		return "", ""
	}
	_, rest, _ := strings.Cut(symbol, tag)
	return tag, strings.TrimPrefix(rest, "_")
}

// kindOf returns what code is that is made for programs.
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

// addStack counts a stack, leaf first. Each program counts once, where it is nearest to the
// leaf.
func (c *Counter) addStack(stack []part, weight int64) {
	c.samples += weight
	interrupted, running := false, false
	var seen []*Cost
	for i := range stack {
		p := &stack[i]
		if i > 0 && stack[i-1].isEntry && !p.isEntry {
			interrupted = true
		}
		if p.cost == nil || slices.Contains(seen, p.cost) {
			continue
		}
		if i > 0 && stack[i-1].isThunk && p.isFirst {
			continue // it was about to be jumped to (contract 2.3)
		}
		seen = append(seen, p.cost)
		switch {
		case i == 0:
			p.cost.Self += weight
			p.cost.addTotal(p, weight)
			running = true
		case c.core == nil, !p.isBPF && !stack[i-1].isBridge:
		case interrupted:
			p.cost.Interrupted += weight
		default:
			p.cost.addTotal(p, weight)
			running = true
		}
	}
	if running {
		c.running += weight
	}
}

func (c *Cost) addTotal(p *part, weight int64) {
	c.Total += weight
	if p.line.Line != 0 {
		c.lines[p.line] += weight
	}
}

// Hottest returns the source line in which the program was in most samples, and their number:
// in the line itself or in what it called. It is 0 if no line is known.
func (c *Cost) Hottest() (hottest Line, samples int64) {
	for line, n := range c.lines {
		if n > samples || n == samples && (line.File < hottest.File || line.File == hottest.File && line.Line < hottest.Line) {
			hottest, samples = line, n
		}
	}
	return hottest, samples
}
