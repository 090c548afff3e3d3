// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

var (
	errNoFunction = errors.New("no function has this name")
	errRangeText  = errors.New("ranges are looked up in the running kernel only")
)

// answer answers one query of any form.
func (l *lookup) answer(ctx context.Context, q *query) ([]*answer, error) {
	switch q.kind {
	case queryAddress:
		return one(l.at(ctx, q.addr))
	case queryRange:
		return l.inRange(ctx, q.addr, q.end)
	case queryOffset:
		return l.atOffset(ctx, q)
	default:
		return l.named(ctx, q)
	}
}

func one(a *answer, err error) ([]*answer, error) {
	if err != nil {
		return nil, err
	}
	return []*answer{a}, nil
}

// inRange returns the functions with code in a range.
func (l *lookup) inRange(ctx context.Context, start, end uint64) (answers []*answer, err error) {
	if l.text != 0 {
		return nil, errRangeText
	}
	snapshot, err := l.running.load(ctx)
	if err != nil {
		return nil, err
	}
	for _, hit := range between(snapshot, start, end) {
		a, err := l.whole(snapshot, namedFunction{hit: hit, asked: hit.Name().System})
		if err != nil {
			return nil, err
		}
		answers = append(answers, a)
	}
	if len(answers) == 0 {
		answers = []*answer{{Address: where{addr: start}, End: &where{addr: end}, Reason: timeline.ReasonUnresolved.String()}}
	}
	return answers, nil
}

// whole describes a function of the running kernel.
func (l *lookup) whole(s *timeline.Snapshot, f namedFunction) (*answer, error) {
	symbol := f.hit.Symbol
	a, err := l.describe(s, f.hit, symbol.Start, symbol.Start)
	a.End, a.Alias, a.Offset, a.Inlined = &where{addr: symbol.End()}, f.alias(), nil, nil
	return a, err
}

// named returns the functions that have a name or match a pattern.
func (l *lookup) named(ctx context.Context, q *query) ([]*answer, error) {
	var answers []*answer
	if l.packs != nil {
		found, err := l.packs.functions(q)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			answers = append(answers, f.whole())
		}
	} else {
		found, err := l.runningFunctions(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			a, err := l.whole(l.running.snapshot, f)
			if err != nil {
				return nil, err
			}
			answers = append(answers, a)
		}
	}
	if len(answers) == 0 {
		return nil, fmt.Errorf("%w: %q", errNoFunction, q.text)
	}
	return answers, nil
}

// runningFunctions returns the functions of the running kernel that a query names.
func (l *lookup) runningFunctions(ctx context.Context, q *query) ([]namedFunction, error) {
	snapshot, err := l.running.load(ctx)
	if err != nil {
		return nil, err
	}
	if l.functions == nil {
		if l.functions, err = newFunctions(snapshot, l.running.procfs); err != nil {
			return nil, err
		}
	}
	return l.functions.find(q.name, q.module), nil
}

// atOffset resolves an offset in an image or in a function. The answer is ambiguous if several
// match.
func (l *lookup) atOffset(ctx context.Context, q *query) ([]*answer, error) {
	if l.packs != nil {
		return l.atOffsetInPacks(ctx, q)
	}
	found, err := l.inImage(ctx, q)
	if err != nil {
		return nil, err
	}
	if start, end, ok := q.startAndLength(); ok && len(found) == 0 {
		return l.inRange(ctx, start, end)
	}
	if q.offset < 0 {
		return orNoImage(found, q)
	}
	functions, err := l.runningFunctions(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, f := range functions {
		symbol := f.hit.Symbol
		if !q.fits(symbol.End()-symbol.Start, l.caller) {
			continue
		}
		addr := symbol.Start + uint64(q.offset)
		a, err := l.describe(l.running.snapshot, f.hit, addr, lineAddress(addr, symbol.Start, symbol.End(), l.caller))
		if err != nil {
			return nil, err
		}
		a.Alias = f.alias()
		found = append(found, a)
	}
	if len(found) == 0 && len(functions) == 0 {
		return orNoImage(found, q)
	}
	return []*answer{decide(q, found, q.misfit())}, nil
}

// inImage resolves an offset in an image of the running kernel. It returns nothing if no image has
// the name. Code of another image at that address is not an answer.
func (l *lookup) inImage(ctx context.Context, q *query) ([]*answer, error) {
	if q.size != 0 || q.module != "" {
		return nil, nil
	}
	snapshot, m, err := l.image(ctx, q.name)
	if err != nil || m == nil {
		return nil, err
	}
	if m.Base() == 0 {
		return nil, fmt.Errorf("the base address of %s is not known, as /sys/module/%[1]s/sections cannot be read", m.Name())
	}
	addr := m.Base() + uint64(q.offset)
	hit, lookedUp := find(snapshot, addr, l.caller)
	if hit.Image != m {
		hit = timeline.Hit{Reason: timeline.ReasonUnresolved}
	}
	return one(l.describe(snapshot, hit, addr, lookedUp))
}

// orNoImage returns the answers found, or an error if there are none.
func orNoImage(found []*answer, q *query) ([]*answer, error) {
	if len(found) == 0 {
		return nil, fmt.Errorf("%w, and no function: %q", errImage, q.text)
	}
	return found, nil
}

// fits reports whether a function of this length can be the one asked for.
func (q *query) fits(length uint64, caller bool) bool {
	if q.size != 0 && q.size != length {
		return false
	}
	// If a call is the last instruction of a function, the kernel prints its return address like
	// this.
	behind := uint64(q.offset) == length && (caller || q.size != 0)
	return uint64(q.offset) < length || behind
}

// misfit explains why no function of that name fits.
func (q *query) misfit() string {
	if q.size != 0 {
		return fmt.Sprintf("no function of that name has %#x bytes", q.size)
	}
	return "no function of that name is that long"
}

// lineAddress returns the address in a function at which to look up the source line.
func lineAddress(addr, start, end uint64, caller bool) uint64 {
	if addr > start && (caller || addr == end) {
		return addr - 1
	}
	return addr
}

// completeFunctions returns the names of functions that begin with prefix.
func completeFunctions(procfs, prefix string) (names []string) {
	const letters = 3 // fewer match thousands of names
	if len(prefix) < letters {
		return nil
	}
	err := eachSymbol(procfs, func(_ uint64, name string) {
		if strings.HasPrefix(name, prefix) && !strings.HasPrefix(name, "__pfx_") {
			names = append(names, name)
		}
	})
	if err != nil {
		return nil
	}
	slices.Sort(names)
	return slices.Compact(names)
}
