// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packfiles"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packview"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/symbolize"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// space is a snapshot, of the running kernel or of a pack, and the way in which its addresses are written: absolute, or
// relative to the base of an image.
type space struct {
	snapshot *timeline.Snapshot
	base     *timeline.Image // nil if they are absolute
	name     string          // of base
}

// inPack returns the space of a pack.
func inPack(l packview.Listed) space { return space{l.Image.Snapshot, l.Image.Text, l.Name} }

// where returns an address as it is written.
func (s *space) where(addr uint64) where {
	if s.base == nil {
		return where{addr: addr}
	}
	return where{relative: packview.Relative(s.name, int64(addr-s.base.Base()))}
}

// At resolves an absolute address. An error is one of reading the kernel or a pack.
func (r *Resolver) At(ctx context.Context, addr uint64) (*Answer, error) {
	if r.Text != 0 {
		return r.inKernelAtText(addr)
	}
	snapshot, err := r.Kernel.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	hit, lookedUp := find(snapshot, addr, r.Caller)
	if r.Kernel.WasReplaced(snapshot, hit, lookedUp) {
		hit = timeline.Hit{Reason: timeline.ReasonAmbiguous}
	}
	return r.describe(space{snapshot: snapshot}, hit, addr, lookedUp)
}

// describe returns the answer for addr that a hit gives. The source lines are those at lookedUp.
func (r *Resolver) describe(in space, hit timeline.Hit, addr, lookedUp uint64) (*Answer, error) {
	a := &Answer{Address: in.where(addr)}
	m := hit.Image
	switch {
	case m == nil:
		a.Reason = hit.Reason.String()
		return a, nil
	case in.snapshot.IsShared(m):
		a.Reason = fmt.Sprintf("in the page of %s, which it shares with other code", m.Name())
		return a, nil
	}
	a.imageName, a.SourceLine = owner(m), bpfLine(m, lookedUp)
	if !hit.Symbol.Exists() {
		a.Reason = timeline.ReasonUnresolved.String()
		return a, nil
	}
	offset := addr - hit.Symbol.Start
	a.Function, a.Offset = hit.Name().Name, &offset
	image, err := r.packOf(m)
	if image != nil {
		a.setFrames(image.Chain(int64(lookedUp-m.Base()), hit.Name().System))
	}
	return a, err
}

// packOf returns the pack of an image, or nil if there is none.
func (r *Resolver) packOf(m *timeline.Image) (*packview.Image, error) {
	if r.Packs == nil || m.BuildID() == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	image, err := r.Packs.ByBuildID(m.BuildID())
	if errors.Is(err, packfiles.ErrNotFound) {
		r.Kernel.Warn(fmt.Errorf("%s: %w", m.Name(), err))
		return nil, nil //nolint:nilnil // it was reported
	}
	return image, err
}

// whole describes a function.
func (r *Resolver) whole(f function) (*Answer, error) {
	symbol := f.hit.Symbol
	a, err := r.describe(f.in, f.hit, symbol.Start, symbol.Start)
	end := f.in.where(symbol.End())
	a.End, a.Alias, a.Offset, a.Inlined = &end, f.alias(), nil, nil
	return a, err
}

// Image returns the image of the running kernel that has a build id or name, or nil if there is none. An error is one of
// reading the kernel.
func (r *Resolver) Image(ctx context.Context, name string) (*timeline.Image, error) {
	s, err := r.Kernel.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	m, ok := s.ByBuildID(name)
	if !ok {
		m, _ = s.Module(name, timeline.Present)
	}
	return m, nil
}

// inImage resolves an offset in an image: that of a pack or, without packs, one of the running kernel. It finds nothing if no
// image has the name, and none says so. Code of another image at that address is not an answer.
func (r *Resolver) inImage(ctx context.Context, q *query) (found []*Answer, none, err error) {
	if q.size != 0 || q.module != "" {
		return nil, fmt.Errorf("%w: %q", ErrNoFunction, q.text), nil
	}
	if r.Packs != nil {
		image, err := r.Packs.Named(q.name)
		if errors.Is(err, packview.ErrNone) {
			return nil, err, nil
		} else if err != nil {
			return nil, nil, err
		}
		found, err = one(r.atOffsetInPack(packview.Listed{Name: q.name, Image: image}, q.offset))
		return found, nil, err
	}
	none = fmt.Errorf("%w: %q", ErrNoImage, q.name)
	m, err := r.Image(ctx, q.name)
	if err != nil || m == nil {
		return nil, none, err
	}
	if m.Base() == 0 {
		return nil, nil, fmt.Errorf("the base address of %s is not known, as /sys/module/%[1]s/sections cannot be read", m.Name())
	}
	snapshot, _ := r.Kernel.Snapshot(ctx)
	found, err = one(r.inText(space{snapshot: snapshot}, m, m.Base()+uint64(q.offset)))
	return found, nil, err
}

// atOffsetInPack resolves an offset in a pack.
func (r *Resolver) atOffsetInPack(listed packview.Listed, offset int64) (*Answer, error) {
	a, err := r.inText(inPack(listed), listed.Image.Text, listed.Image.Address(offset))
	a.imageName = owner(listed.Image.Text)
	return a, err
}

// inText resolves an address in an image.
func (r *Resolver) inText(in space, m *timeline.Image, addr uint64) (*Answer, error) {
	hit, lookedUp := find(in.snapshot, addr, r.Caller)
	if hit.Image != m {
		hit = timeline.Hit{Reason: timeline.ReasonUnresolved}
	}
	return r.describe(in, hit, addr, lookedUp)
}

// inKernelAtText resolves an address of a core kernel whose _text is known.
func (r *Resolver) inKernelAtText(addr uint64) (*Answer, error) {
	image, err := r.Packs.Named(cmp.Or(r.Build, pack.KernelName))
	if err != nil {
		return nil, err
	}
	info := image.Pack.Info()
	offset := int64(addr - r.Text + info.Text - min(info.Text, info.Stext))
	a, err := r.inText(inPack(packview.Listed{Image: image}), image.Text, image.Address(offset))
	a.Address = where{addr: addr}
	return a, err
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
func bpfLine(m *timeline.Image, addr uint64) SourceLine {
	line, ok := m.Lines.Find(uint32(addr - m.Start))
	if !ok {
		return SourceLine{}
	}
	at := m.Lines.Position(line)
	return SourceLine{at.File, at.Line, at.Column}
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
