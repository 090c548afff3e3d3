// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"errors"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// A Wait is what the kernel says about one wait of a thread.
type Wait struct {
	Addresses []uint64 // of the stack, leaf first; all are return addresses
	Wchan     string   // the function that waits; empty if the kernel does not say
	Frames    []Frame  // of the stack, leaf first, without the scheduler's; none if they cannot be read
}

// A Frame is a frame of a stack, as the kernel prints it.
type Frame struct {
	Function string // empty if it is not a function of the core kernel
	Offset   uint64 // of the address, from the start of the function
	Length   uint64 // of the function
}

// The errors of [Place].
var (
	ErrArch   = errors.New("it is not known to which addresses a kernel of this architecture can be moved")
	ErrUnseen = errors.New("the machine is too busy: no thread was seen while it waited")
	ErrSilent = errors.New("the kernel does not say where a thread waits: grant CAP_SYS_ADMIN, " +
		"or use Linux 5.16 or later (on x86-64, wchan says nothing before)")
	ErrFew           = errors.New("the kernel names fewer than three functions in which a thread waits: grant CAP_SYS_ADMIN")
	ErrContradiction = errors.New("the symbols of the pack contradict the stacks of threads that wait")
	ErrSeveral       = errors.New("the kernel could be at several places")
)

// minFunctions is how many functions must agree on the place.
const minFunctions = 3

// Place returns the address of the beginning of a pack's code in memory, or why it is not certain (contract 10.5). No error
// has an address in its text.
func Place(p *pack.Pack, waits []Wait) (uint64, error) {
	step := map[string]uint64{"amd64": 2 << 20, "arm64": 64 << 10}[p.Info().Arch]
	if step == 0 {
		return 0, ErrArch
	}
	clues, functions := findClues(p, waits)
	switch {
	case len(waits) == 0:
		return 0, ErrUnseen
	case functions == 0:
		return 0, ErrSilent
	case functions < minFunctions:
		return 0, ErrFew
	}
	places := findPlaces(p.Info(), step, clues, waits)
	switch {
	case len(places) == 0:
		return 0, ErrContradiction
	case len(places) > 1:
		return 0, ErrSeveral
	}
	return places[0], nil
}

// A clue holds the places that one name allows.
type clue []span

// A span is the places from the first to the last.
type span struct{ first, last uint64 }

// has reports whether a clue allows a place.
func (c clue) has(place uint64) bool {
	return slices.ContainsFunc(c, func(s span) bool { return s.first <= place && place <= s.last })
}

// findClues returns the clues in waits, and the number of functions that they name.
func findClues(p *pack.Pack, waits []Wait) (clues []clue, functions int) {
	named := findNamed(p, waits)
	add := func(name string, spans func(pack.Range) []span) {
		var c clue
		for _, f := range named[name] {
			c = append(c, spans(f)...)
		}
		if len(named[name]) > 0 {
			clues = append(clues, c)
		}
	}
	for _, w := range waits {
		add(w.Wchan, func(f pack.Range) (spans []span) {
			for _, addr := range w.Addresses {
				spans = append(spans, span{addr - uint64(f.End) + 1, addr - uint64(f.Start)})
			}
			return spans
		})
		for i, frame := range w.Frames {
			add(frame.Function, func(f pack.Range) []span {
				at := len(w.Addresses) - len(w.Frames) + i // counted from the outermost
				if at < 0 || frame.Length != uint64(f.End-f.Start) {
					return nil
				}
				place := w.Addresses[at] - frame.Offset - uint64(f.Start)
				return []span{{place, place}}
			})
		}
	}
	return clues, len(named)
}

// findNamed returns the functions of a pack that waits name, by these names.
func findNamed(p *pack.Pack, waits []Wait) map[string][]pack.Range {
	wanted := make(map[string]bool)
	for _, w := range waits {
		wanted[w.Wchan] = true
		for _, f := range w.Frames {
			wanted[f.Function] = true
		}
	}
	delete(wanted, "")
	named := make(map[string][]pack.Range)
	for s := range p.Symbols() {
		short, _, isCut := strings.Cut(s.Name, ".llvm.") // see cleanup_symbol_name in kernel/kallsyms.c
		if wanted[short] {
			named[short] = append(named[short], s.Range)
		}
		if isCut && wanted[s.Name] {
			named[s.Name] = append(named[s.Name], s.Range)
		}
	}
	return named
}

// findPlaces returns the places that agree with all clues and with all addresses. There must be at least one clue.
func findPlaces(info *pack.Info, step uint64, clues []clue, waits []Wait) (places []uint64) {
	for _, s := range clues[0] {
		for place := (s.first + step - 1) / step * step; s.first <= place && place <= s.last; place += step {
			isExcluded := slices.Contains(places, place) ||
				slices.ContainsFunc(clues[1:], func(c clue) bool { return !c.has(place) }) ||
				slices.ContainsFunc(waits, func(w Wait) bool { return !isInCode(info, place, w.Addresses) })
			if !isExcluded {
				places = append(places, place)
			}
		}
	}
	return places
}

// isInCode reports whether all addresses lie in the code of a pack at a place.
func isInCode(info *pack.Info, place uint64, addresses []uint64) bool {
	return !slices.ContainsFunc(addresses, func(addr uint64) bool {
		offset := addr - place
		return offset >= uint64(info.Extent.End) || info.Gap.Contains(uint32(offset))
	})
}
