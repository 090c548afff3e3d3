// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"

	"github.com/kernelsym/kernelsym/internal/symbolize"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A Stack resolves the frames of a stack that /proc/PID/stack has, the innermost first. It begins behind the scheduler, so the
// first frame is a return address. The frames before a frame decide its role (contract 2.3).
type Stack struct {
	resolver *Resolver

	core       *timeline.Snapshot // of the core kernel; nil before its first frame
	walk       symbolize.Walk     // of core
	unresolved bool               // it is not known where the last frame lies
}

// NewStack begins a stack.
func NewStack(r *Resolver) *Stack { return &Stack{resolver: r} }

// InPack is Resolver.InPack for the next frame. If its role is not known, the answer has what is the same for both roles. The
// frame has no answer if build is empty.
func (s *Stack) InPack(ctx context.Context, offset, image, build string) (*Answer, error) {
	q := printedOffset(offset, image, build)
	var found []place
	if q != nil && build != "" {
		var err error
		if found, err = s.resolver.places(ctx, q); err != nil {
			return nil, err
		}
	}
	role := s.next(found, image == timeline.KernelName)
	if len(found) == 0 || role != symbolize.Caller && found[0].isBehind() {
		return nil, nil //nolint:nilnil // the pack does not have it, or it may be in the next function
	}
	s.resolver.Caller = role != symbolize.Exact
	a, err := s.resolver.InPack(ctx, offset, image, build)
	if a == nil || err != nil || role == symbolize.Exact || role == symbolize.Caller {
		return a, err
	}
	s.resolver.Caller = false
	exact, err := s.resolver.InPack(ctx, offset, image, build)
	if exact == nil || err != nil {
		return nil, err
	}
	return a.Common(exact), nil
}

// Nameless passes a frame of code without a name, which is not entry code.
func (s *Stack) Nameless() { s.next(nil, false) }

// answer answers a query about the next frame. It may also be the first one of another stack, so a frame behind entry code
// gets only the lines that are the same for both roles.
func (s *Stack) answer(ctx context.Context, q *query) ([]*Answer, error) {
	found, err := s.resolver.places(ctx, q)
	if err != nil {
		return nil, err
	}
	role := s.next(found, q.module == "")
	answers, err := s.resolver.atOffset(ctx, q)
	if err != nil || role == symbolize.Caller || len(found) != 1 || len(answers) != 1 {
		return answers, err
	}
	if found[0].isBehind() {
		return one(answers[0].withoutLines(), nil)
	}
	s.resolver.Caller = false
	exact, err := s.resolver.atOffset(ctx, q)
	s.resolver.Caller = true
	if err != nil {
		return nil, err
	}
	if both := exact[0].Common(answers[0]); both != nil {
		return one(both, nil)
	}
	return one(exact[0].withoutLines(), nil) // they are in different functions
}

// next passes a frame and returns its role. found are the places where it can be, inCore whether it is one of the core kernel.
func (s *Stack) next(found []place, inCore bool) symbolize.RoleKind {
	wasUnresolved := s.unresolved
	s.unresolved = inCore && len(found) != 1
	role := symbolize.Caller
	switch {
	case inCore && len(found) == 1:
		role = s.nextInCore(found[0])
	case s.core != nil:
		role = s.walk.NextOrdinary().Kind
	}
	if wasUnresolved {
		return symbolize.Unknown
	}
	return role
}

// nextInCore passes a frame of the core kernel.
func (s *Stack) nextInCore(at place) symbolize.RoleKind {
	kernel := symbolize.New(func() *timeline.Snapshot { return at.of.in.snapshot })
	if s.core != at.of.in.snapshot {
		s.core, s.walk = at.of.in.snapshot, kernel.Walk(symbolize.OtherProducer)
		s.walk.NextOrdinary() // in the scheduler
	}
	frame := symbolize.Frame{Address: at.addr, Mapping: symbolize.NoMapping}
	kernel.Locate(&frame)
	return s.walk.Next(&frame, nil).Kind
}
