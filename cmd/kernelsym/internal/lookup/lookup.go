// SPDX-License-Identifier: Apache-2.0

// Package lookup answers which function is at an address of a kernel, and where a function is.
//
// It is given the running kernel, and packs. Both are spaces: images at addresses of a snapshot. An answer has the address as
// its space writes it, the function, and what a pack of the image adds: inlined functions and source lines.
//
//	query ──┬─ an address ──────────────────────────────────► hit ─► describe ─► Answer
//	        └─ a name, perhaps with an offset ─► index ─► functions ───┘
//
// An index has the names of a space. With packs, names and relative addresses are looked up in these alone.
package lookup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packfiles"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packview"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/running"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/symbolize"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// Resolver resolves addresses and names of the running kernel, or those in packs. It is not safe for concurrent use.
type Resolver struct {
	Kernel *running.Kernel
	Packs  *packview.Packs // nil without packs
	Caller bool            // addresses are return addresses
	Text   uint64          // address of _text on another machine, whose absolute addresses are looked up in packs; or 0
	Build  string          // build id of that machine's core kernel; empty if it is the only one that has a pack

	stack   *Stack // of the lines that were read last; nil for other queries
	running *index // names of the running kernel; nil until a name is asked for
	packs   map[*packview.Image]*index
}

// The errors of queries that have no answer.
var (
	ErrNoFunction = errors.New("no function has this name")
	ErrNoImage    = errors.New("no function, and no single image, has this name or build id")
	errRangeText  = errors.New("ranges are looked up in the running kernel only")
)

// maxLine is the length of the longest line of standard input.
const maxLine = 1 << 20

// Run calls visit with the answers to each query in the arguments or, for the argument - and if there are none, on standard
// input, or with the query's error. It returns the error of visit, or one that prevents all further answers.
func (r *Resolver) Run(ctx context.Context, args []string, stdin func() io.Reader, visit func([]*Answer, error) error) error {
	if len(args) == 0 {
		args = []string{"-"}
	}
	var words []string
	for _, arg := range args {
		if arg != "-" {
			words = append(words, wordsOf(arg)...)
			continue
		}
		if err := r.answerAll(ctx, words, visit); err != nil {
			return err
		}
		words = nil
		lines := bufio.NewScanner(stdin())
		lines.Buffer(nil, maxLine)
		for lines.Scan() {
			if err := r.answerAll(ctx, strings.Fields(lines.Text()), visit); err != nil {
				return err
			}
		}
		if err := lines.Err(); err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
	}
	return r.answerAll(ctx, words, visit)
}

// answerAll answers the queries in words.
func (r *Resolver) answerAll(ctx context.Context, words []string, visit func([]*Answer, error) error) error {
	return parseQueries(words, func(q query, err error) error {
		var answers []*Answer
		if err == nil {
			answers, err = r.answer(ctx, &q)
		}
		if err != nil && (r.Kernel.Failed() || ctx.Err() != nil) {
			return err
		}
		return visit(answers, err)
	})
}

// answer answers one query of any form.
func (r *Resolver) answer(ctx context.Context, q *query) ([]*Answer, error) {
	if q.isFrame && q.kind == queryOffset && r.Caller && r.Packs != nil {
		if r.stack == nil {
			r.stack = NewStack(r)
		}
		return r.stack.answer(ctx, q)
	}
	r.stack = nil
	switch q.kind {
	case queryAddress:
		return one(r.At(ctx, q.addr))
	case queryRange:
		return r.inRange(ctx, q.addr, q.end)
	case queryOffset:
		return r.atOffset(ctx, q)
	default:
		return r.named(ctx, q)
	}
}

func one(a *Answer, err error) ([]*Answer, error) {
	if err != nil {
		return nil, err
	}
	return []*Answer{a}, nil
}

// inRange returns the functions with code in a range.
func (r *Resolver) inRange(ctx context.Context, start, end uint64) (answers []*Answer, err error) {
	if r.Text != 0 {
		return nil, errRangeText
	}
	snapshot, err := r.Kernel.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	in := space{snapshot: snapshot}
	for _, hit := range between(snapshot, start, end) {
		if snapshot.IsLocated() { // its addresses are in no output but those of the question
			in.base, in.name = hit.Image, hit.Image.Name()
		}
		a, err := r.whole(function{in, hit, hit.Name().System})
		if err != nil {
			return nil, err
		}
		answers = append(answers, a)
	}
	if len(answers) == 0 {
		answers = []*Answer{{Address: where{addr: start}, End: &where{addr: end}, Reason: timeline.ReasonUnresolved.String()}}
	}
	return answers, nil
}

// named returns the functions that have a name or match a pattern.
func (r *Resolver) named(ctx context.Context, q *query) (answers []*Answer, err error) {
	found, err := r.functions(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		a, err := r.whole(f)
		if err != nil {
			return nil, err
		}
		answers = append(answers, a)
	}
	if len(answers) == 0 {
		return nil, fmt.Errorf("%w: %q", ErrNoFunction, q.text)
	}
	return answers, nil
}

// atOffset resolves an offset in an image or in a function. The answer is ambiguous if several match. With packs, START+LENGTH
// is still a range of the running kernel, unless START is the build id of one of them.
func (r *Resolver) atOffset(ctx context.Context, q *query) ([]*Answer, error) {
	start, end, isRange := q.startAndLength()
	if isRange && r.Packs != nil && symbolize.InKernelHalf(start) {
		if _, err := r.Packs.ByBuildID(q.name); errors.Is(err, packfiles.ErrNotFound) {
			return r.inRange(ctx, start, end)
		}
	}
	found, none, err := r.inImage(ctx, q)
	if err != nil {
		return nil, err
	}
	if isRange && r.Packs == nil && len(found) == 0 {
		return r.inRange(ctx, start, end)
	}
	if q.offset < 0 || r.Packs != nil && pack.IsBuildID(q.name) {
		return found, none
	}
	functions, err := r.functions(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, at := range r.fitting(q, functions) {
		hit, lookedUp := find(at.of.in.snapshot, at.addr, r.Caller || at.isBehind())
		a, err := r.describe(at.of.in, hit, at.addr, lookedUp)
		if err != nil {
			return nil, err
		}
		if hit.Symbol == at.of.hit.Symbol {
			a.Alias = at.of.alias()
		}
		found = append(found, a)
	}
	if len(found) == 0 && len(functions) == 0 {
		return nil, none
	}
	return []*Answer{decide(q, found, q.misfit())}, nil
}

// place is an address in a function or, for a return address, at its end.
type place struct {
	of   function
	addr uint64
}

// isBehind reports whether a place is at the end of its function, and so means another one unless it is a return address.
func (p *place) isBehind() bool { return p.addr == p.of.hit.Symbol.End() }

// places returns the places that an offset in a function can mean.
func (r *Resolver) places(ctx context.Context, q *query) ([]place, error) {
	functions, err := r.functions(ctx, q)
	return r.fitting(q, functions), err
}

// fitting returns the places that an offset means in those functions that can be the one asked for.
func (r *Resolver) fitting(q *query, functions []function) (places []place) {
	for _, f := range functions {
		if symbol := f.hit.Symbol; q.fits(symbol.End()-symbol.Start, r.Caller) {
			places = append(places, place{f, symbol.Start + uint64(q.offset)})
		}
	}
	return places
}

// InPack returns the answer of the pack of a build to an offset in a function as the kernel prints it, such as
// ksys_read+0x6f/0xf0. It returns nil if the image of that build has another name, or if the source line is not certain, or if
// it is looked up in another function. An error says that the pack cannot be used.
func (r *Resolver) InPack(ctx context.Context, offset, image, build string) (*Answer, error) {
	q := printedOffset(offset, image, build)
	if q == nil {
		return nil, nil //nolint:nilnil // it has none
	}
	answers, err := r.atOffset(ctx, q)
	switch {
	case errors.Is(err, ErrNoFunction):
		return nil, nil //nolint:nilnil // the pack does not have it
	case err != nil:
		return nil, err
	case len(answers) != 1 || answers[0].File == "" || answers[0].Offset == nil || *answers[0].Offset != uint64(q.offset):
		return nil, nil //nolint:nilnil // its line is not certain, or it is a return address to another function
	}
	return answers[0], nil
}

// printedOffset returns the query for an offset in a function of a build as the kernel prints it, nil if it is none, such as one
// of more than 4 GiB.
func printedOffset(offset, image, build string) *query {
	q, err := parseQuery(offset)
	if err != nil || q.kind != queryOffset || q.size == 0 {
		return nil
	}
	q.module, q.build = image, build
	return &q
}
