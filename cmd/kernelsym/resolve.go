// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packfiles"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/symbolize"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// resolver resolves addresses of the running kernel, or addresses in packs.
type resolver struct {
	caller  bool
	running running
	packs   *packs // nil without packs
	text    uint64 // address of _text on another machine, or 0
	kernel  string // build id of that machine's core kernel; empty if it is the only one that has a pack
}

var errImage = errors.New("this kernel has no image of that name or build id, or several had the name")

// at resolves an absolute address.
func (r *resolver) at(ctx context.Context, addr uint64) (*answer, error) {
	if r.text != 0 {
		return r.inKernelAtText(addr)
	}
	snapshot, err := r.running.load(ctx)
	if err != nil {
		return nil, err
	}
	hit, lookedUp := find(snapshot, addr, r.caller)
	if r.running.replaced(snapshot, hit, lookedUp) {
		hit = timeline.Hit{Reason: timeline.ReasonAmbiguous}
	}
	return r.describe(snapshot, hit, addr, lookedUp)
}

// describe returns the answer for addr that a hit gives. The source lines are those at lookedUp.
func (r *resolver) describe(s *timeline.Snapshot, hit timeline.Hit, addr, lookedUp uint64) (*answer, error) {
	a := &answer{Address: where{addr: addr}}
	m := hit.Image
	switch {
	case m == nil:
		a.Reason = hit.Reason.String()
		return a, nil
	case s.IsShared(m):
		a.Reason = fmt.Sprintf("in the page of %s, which it shares with other code", m.Name())
		return a, nil
	}
	a.imageName, a.sourceLine = owner(m), bpfLine(m, lookedUp)
	if !hit.Symbol.Exists() {
		a.Reason = timeline.ReasonUnresolved.String()
		return a, nil
	}
	offset := addr - hit.Symbol.Start
	a.Function, a.Offset = hit.Name().Name, &offset
	frames, err := r.chain(hit, lookedUp)
	a.setFrames(frames)
	return a, err
}

// chain returns the frames that the pack of a hit's image has for an address. It returns none if
// there is no such pack.
func (r *resolver) chain(hit timeline.Hit, addr uint64) ([]pack.Frame, error) {
	m := hit.Image
	if r.packs == nil || m.BuildID() == "" {
		return nil, nil
	}
	image, err := r.packs.byBuildID(m.BuildID())
	if errors.Is(err, packfiles.ErrNotFound) {
		if r.packs.missingOnce(m.BuildID()) {
			r.running.warn(fmt.Errorf("%s: %w", m.Name(), err))
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	at, ok := image.address(int64(addr - m.Base()))
	if !ok {
		return nil, nil
	}
	return image.chain(at, hit.Name().System), nil
}

// image returns the snapshot of the running kernel, and the image in it that has a build id or
// name. The image is nil if there is none.
func (r *resolver) image(ctx context.Context, name string) (s *timeline.Snapshot, m *timeline.Image, err error) {
	s, err = r.running.load(ctx)
	if err != nil {
		return nil, nil, err
	}
	m, ok := s.ByBuildID(name)
	if !ok {
		m, _ = s.Module(name, timeline.Present)
	}
	return s, m, nil
}

// inPack looks up an offset in the image of a pack.
func (r *resolver) inPack(name string, offset int64) (*answer, error) {
	image, err := r.packs.named(name)
	if err != nil {
		return nil, err
	}
	return image.at(offset, r.caller, where{relative: relative(name, offset)}), nil
}

// inKernelAtText looks up an address of a core kernel whose _text is known.
func (r *resolver) inKernelAtText(addr uint64) (*answer, error) {
	image, err := r.packs.named(cmp.Or(r.kernel, pack.KernelName))
	if err != nil {
		return nil, err
	}
	info := image.pack.Info()
	offset := int64(addr - r.text + info.Text - min(info.Text, info.Stext))
	return image.at(offset, r.caller, where{addr: addr}), nil
}

// at resolves an offset, either as an instruction pointer or, for a caller, as a return address.
func (p *packImage) at(offset int64, caller bool, address where) *answer {
	a := &answer{Address: address, imageName: p.owner(), Reason: timeline.ReasonUnresolved.String()}
	addr, ok := p.address(offset)
	if !ok {
		return a
	}
	hit, lookedUp := find(p.snapshot, p.inSnapshot(addr), caller)
	if hit.Symbol.Exists() {
		p.describe(a, hit.Symbol, addr, p.fromSnapshot(lookedUp))
	}
	return a
}

// describe adds the function, and the pack's frames at lookedUp.
func (p *packImage) describe(a *answer, s symtab.Symbol, addr, lookedUp uint32) {
	name, offset := p.image.SymbolName(s), uint64(addr-p.fromSnapshot(s.Start))
	a.Function, a.Offset, a.Reason = name.Name, &offset, ""
	a.setFrames(p.chain(lookedUp, name.System))
}

func (p *packImage) owner() imageName {
	return imageName{Image: p.pack.Info().Name, BuildID: p.pack.Info().BuildID}
}

// owner returns the image name that an answer gives for m.
func owner(m *timeline.Image) imageName {
	if !m.IsFunction() {
		return imageName{Image: m.Name(), BuildID: m.BuildID()}
	}
	name := imageName{Image: m.Origin.String()}
	if p := m.Program; p != nil {
		name.Program = p.ID
	}
	return name
}

// bpfLine returns the source line of an address in a BPF function.
func bpfLine(m *timeline.Image, addr uint64) sourceLine {
	line, ok := m.Lines.Find(uint32(addr - m.Start))
	if !ok {
		return sourceLine{}
	}
	at := m.Lines.Position(line)
	return sourceLine{at.File, at.Line, at.Column}
}

// find looks up an instruction pointer, either of a caller or of the leaf of a stack. It returns
// the hit and the address that it looked up. The hit has no symbol if the function is uncertain.
func find(s *timeline.Snapshot, addr uint64, caller bool) (hit timeline.Hit, lookedUp uint64) {
	kernel := symbolize.New(func() *timeline.Snapshot { return s })
	frame := symbolize.Frame{Address: addr, Mapping: symbolize.NoMapping}
	role := symbolize.Role{Kind: symbolize.Exact}
	if caller {
		role.Kind = symbolize.Caller
	}
	kernel.Locate(&frame)
	a, _ := kernel.Resolve(&frame, role, timeline.Present)
	hit, _ = s.At(a.Address, timeline.Present)
	hit.Symbol = a.Symbol
	return hit, a.Address
}
