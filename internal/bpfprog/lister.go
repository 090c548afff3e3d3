// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/kernelsym/kernelsym/internal/bpf"
)

// lister asks the kernel for programs. It is for one goroutine.
type lister struct {
	programs  Programs
	describer describer
	now       func() int64 // reads the clock of records
	drain     func()       // empties the rings
	paced     time.Time    // when it did
}

// listing is what a list of all programs has shown.
type listing struct {
	began  int64      // the clock before the list,
	walked int64      // after the last id was read,
	ended  int64      // and after the last program was asked for
	alive  []uint32   // ids, in order; nil if not all were listed
	found  []function // of those that were not known
	err    error      // why the kernel did not tell of one
	ok     bool       // all that is not in the list is not there, or the kernel never tells
}

// list lists programs. Those that are known it asks for only to confirm them: the kernel
// takes a program's id away some time after it has recorded that it is unloaded, and
// refuses to tell of it from before that on.
func (l *lister) list(ctx context.Context, known map[uint32]bool, confirm bool) (*listing, error) {
	list := &listing{began: l.now()}
	defer func() { list.ended = l.now() }()
	l.describer.anybody = anybodyLoads(l.describer.procfs)
	ids, err := l.ids()
	list.walked = l.now()
	if err != nil {
		return list, err
	}
	alive := make([]uint32, 0, len(ids))
	list.found = make([]function, 0, max(0, len(ids)-len(known)))
	for _, id := range ids {
		if ctx.Err() != nil {
			return list, ctx.Err()
		}
		want := l.describer.want
		if known[id] {
			if want = 0; !confirm {
				alive = append(alive, id)
				continue
			}
		}
		p, err := l.programs.Program(id, want)
		switch {
		case errors.Is(err, bpf.ErrGone):
		case err != nil && (isRefused(err) || known[id]):
			return list, err
		case err != nil:
			list.err = err
		default:
			alive = append(alive, id)
			if !known[id] {
				if list.found, err = l.describer.functions(list.found, p, list.walked); isFailure(err) {
					list.err = err
				}
			}
		}
		l.pace()
	}
	list.alive = alive
	return list, nil
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

// ask asks for programs for some time, and returns the others. One that is gone is no error.
func (l *lister) ask(ids []uint32) (found []function, rest []uint32, err error) {
	const longest = 100 * time.Millisecond
	for began := time.Now(); len(ids) > 0 && time.Since(began) < longest; ids = ids[1:] {
		p, askErr := l.programs.Program(ids[0], l.describer.want)
		if askErr == nil {
			found, askErr = l.describer.functions(found, p, 0)
		}
		if isFailure(askErr) {
			err = askErr
		}
		l.pace()
	}
	return found, ids, err
}

// isFailure reports whether an error is more than that a program was unloaded meanwhile.
func isFailure(err error) bool { return err != nil && !errors.Is(err, bpf.ErrGone) }

// pace empties the rings now and then.
func (l *lister) pace() {
	if at := time.Now(); at.Sub(l.paced) > time.Millisecond {
		l.drain()
		l.paced = at
	}
}

// isRefused reports whether the kernel will not tell of any program either.
func isRefused(err error) bool {
	return errors.Is(err, bpf.ErrPermission) || errors.Is(err, bpf.ErrHidden) || errors.Is(err, bpf.ErrUnsupported)
}
