// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/kernelsym/kernelsym/internal/bpf"
)

// A lister lists and queries programs. That takes long, so it empties the rings of records every millisecond. It is for
// one goroutine.
type lister struct {
	programs ProgramReader
	querier  querier
	now      func() int64 // the clock of records
	drain    func()       // empties the rings
	drained  time.Time    // when it did last
}

// list lists the programs, and queries the unknown ones. With confirm, it queries the known ones too: the kernel
// removes the id of a program some time after it has recorded the unload, but refuses a query from before that on.
func (l *lister) list(ctx context.Context, known map[uint32]bool, confirm bool) (*listing, error) {
	list := &listing{began: l.now()}
	defer func() { list.ended = l.now() }()
	l.querier.mayBeUnprivileged = mayBeUnprivileged(l.querier.procfs)
	all, err := l.ids()
	list.read = l.now()
	if err != nil {
		return list, err
	}
	loaded := make([]uint32, 0, len(all))
	list.found = make([]function, 0, max(0, len(all)-len(known)))
	for _, id := range all {
		if ctx.Err() != nil {
			return list, ctx.Err()
		}
		if known[id] && !confirm {
			loaded = append(loaded, id)
			continue
		}
		isLoaded, err := l.query(list, id, known[id])
		if err != nil {
			return list, err
		}
		if isLoaded {
			loaded = append(loaded, id)
		}
		l.pace()
	}
	list.ids = loaded
	return list, nil
}

// query queries a program, and adds the functions of one that is not known to a list. An error means that the list
// cannot be completed.
func (l *lister) query(list *listing, id uint32, isKnown bool) (isLoaded bool, err error) {
	want := l.querier.want
	if isKnown {
		want = 0
	}
	p, err := l.programs.Program(id, want)
	if err != nil {
		return false, list.failed(err, isKnown)
	}
	if isKnown {
		return true, nil
	}
	if list.found, err = l.querier.appendFunctions(list.found, p, list.read); isFailure(err) {
		list.err = err
	}
	return true, nil
}

// failed handles the error of a query, and returns it if the list cannot be completed. A program that was unloaded in
// the meantime is no error.
func (l *listing) failed(err error, isKnown bool) error {
	switch {
	case errors.Is(err, bpf.ErrGone):
		return nil
	case isRefused(err), isKnown:
		return err
	}
	l.err = err
	return nil
}

// ids returns the ids of all programs, in order.
func (l *lister) ids() (ids []uint32, err error) {
	for id := uint32(0); ; {
		if id, err = l.programs.Next(id); errors.Is(err, io.EOF) {
			return ids, nil
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
}

// queryNew queries programs for at most 100 ms, and returns the ids that are left. A program that was unloaded in the
// meantime is no error.
func (l *lister) queryNew(ids []uint32) (found []function, left []uint32, err error) {
	const longest = 100 * time.Millisecond
	for began := time.Now(); len(ids) > 0 && time.Since(began) < longest; ids = ids[1:] {
		p, queryErr := l.programs.Program(ids[0], l.querier.want)
		if queryErr == nil {
			found, queryErr = l.querier.appendFunctions(found, p, 0)
		}
		if isFailure(queryErr) {
			err = queryErr
		}
		l.pace()
	}
	return found, ids, err
}

// isFailure reports whether an error means more than that a program was unloaded in the meantime.
func isFailure(err error) bool { return err != nil && !errors.Is(err, bpf.ErrGone) }

// pace empties the rings if it is time to.
func (l *lister) pace() {
	if at := time.Now(); at.Sub(l.drained) > time.Millisecond {
		l.drain()
		l.drained = at
	}
}

// isRefused reports whether an error means that the kernel refuses to list any program.
func isRefused(err error) bool {
	return errors.Is(err, bpf.ErrPermission) || errors.Is(err, bpf.ErrHidden) || errors.Is(err, bpf.ErrUnsupported)
}
