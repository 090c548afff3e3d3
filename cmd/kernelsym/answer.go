package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packfiles"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// answer is what lookup says about an address.
type answer struct {
	address string
	what    string       // function and offset, or a question mark
	owner   string       // the image it is in, with a space before it, or empty
	frames  []pack.Frame // what a pack says of it, innermost first
}

// String returns a line for each function that was inlined and one for the function that
// has the code, with the address before the first.
func (a *answer) String() string {
	var b strings.Builder
	before := a.address
	line := func(what, where string) {
		fmt.Fprintln(&b, strings.TrimRight(before+" "+what+where, " "))
		before = strings.Repeat(" ", len(a.address))
	}
	where := a.owner
	if n := len(a.frames); n > 0 {
		for _, f := range a.frames[:n-1] {
			line(symtab.NameOf(f.Function).Name, spaced(position(f.File, f.Line))+" (inlined)")
		}
		where += spaced(position(a.frames[n-1].File, a.frames[n-1].Line))
	}
	line(a.what, where)
	return b.String()
}

// spaced returns s with a space before it, unless it is empty.
func spaced(s string) string {
	if s == "" {
		return ""
	}
	return " " + s
}

// at returns what is at an offset, as that of an exact frame or of a caller (contract 2.3).
func (p *packImage) at(offset int64, caller bool, address string) *answer {
	a := &answer{address: address, what: "?", owner: fmt.Sprintf(" [%s] %s", p.Info().Name, p.Info().BuildID)}
	addr, ok := p.address(offset)
	if !ok {
		return a
	}
	lookedUp := addr
	if caller && addr > 0 && (p.symbol(addr).Start != addr || p.symbol(addr-1).Name != "") {
		lookedUp = addr - 1
	}
	if s := p.symbol(lookedUp); s.Name != "" {
		a.what = fmt.Sprintf("%s+%#x", symtab.NameOf(s.Name).Name, addr-s.Start)
		a.frames = p.chain(lookedUp, s.Name)
	}
	return a
}

// relativeToRunning looks up an offset in an image of the running kernel.
func (l *lookup) relativeToRunning(ctx context.Context, name string, offset int64) (*answer, error) {
	snapshot, err := l.running.load(ctx)
	if err != nil {
		return nil, err
	}
	m, ok := snapshot.ByBuildID(name)
	if !ok {
		m, _ = snapshot.Named(name, symtab.Present)
	}
	if m == nil {
		return nil, fmt.Errorf("%w: %q", errImage, name)
	}
	return l.inRunning(ctx, m.OffsetBase()+uint64(offset))
}

// inRunning looks up an address of the running kernel.
func (l *lookup) inRunning(ctx context.Context, addr uint64) (*answer, error) {
	snapshot, err := l.running.load(ctx)
	if err != nil {
		return nil, err
	}
	hit, lookedUp := find(snapshot, addr, l.caller)
	a := &answer{address: hexadecimal(addr).String()}
	switch m := hit.Image; {
	case m == nil:
		a.what = fmt.Sprintf("? (%s)", hit.Reason)
		return a, nil
	case m.IsLong() && snapshot.Landmarks().SharedTrampolines:
		a.what = fmt.Sprintf("? (in the page of %s, which it shares with other code)", m.Name())
		return a, nil
	case hit.Symbol.Image == nil:
		a.what, a.owner = "?", owner(m, addr)
		return a, nil
	}
	a.what = fmt.Sprintf("%s+%#x", hit.Symbol.Name().Name, addr-hit.Symbol.Start)
	a.owner = owner(hit.Image, called(addr, l.caller))
	a.frames, err = l.chain(hit, lookedUp)
	return a, err
}

// chain returns what the pack of an image of the running kernel says of an address in a
// symbol.
func (l *lookup) chain(hit symtab.Hit, addr uint64) ([]pack.Frame, error) {
	m := hit.Image
	if l.packs == nil || m.Text == nil || m.BuildID == "" {
		return nil, nil
	}
	image, err := l.packs.byBuildID(m.BuildID)
	if errors.Is(err, packfiles.ErrNotFound) {
		if l.packs.missingOnce(m.BuildID) {
			l.running.warn(fmt.Errorf("%s: %w", m.Name(), err))
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	at, ok := image.address(int64(addr - m.OffsetBase()))
	if !ok {
		return nil, nil
	}
	return image.chain(at, hit.Symbol.Name().System), nil
}

// owner says which image an address is in, and from which source line it comes.
func owner(m *symtab.Image, addr uint64) string {
	if m.Text != nil {
		return strings.TrimRight(" ["+m.Name()+"] "+m.BuildID, " ")
	}
	s := " [" + m.Origin.String() + "]"
	if p := m.Program; p != nil {
		s += fmt.Sprintf(" id %d", p.ID)
	}
	if line := m.Lines.Find(uint32(addr - m.Start)); line >= 0 {
		at := m.Lines.Position(line)
		s += fmt.Sprintf(" %s:%d:%d", at.File, at.Line, at.Column)
	}
	return s
}

// called returns the address of which the source line is wanted.
func called(addr uint64, caller bool) uint64 {
	if caller {
		return addr - 1
	}
	return addr
}

// find looks an address up, as that of an exact frame or of a caller (contract 2.3), and
// says at which it did.
func find(s *symtab.Snapshot, addr uint64, caller bool) (hit symtab.Hit, lookedUp uint64) {
	at := s.At(addr, symtab.Present)
	if !caller {
		return at, addr
	}
	before := s.At(addr-1, symtab.Present)
	if before.Symbol.Image == nil && at.Symbol.Image != nil && at.Symbol.Start == addr {
		return at, addr
	}
	return before, addr - 1
}
