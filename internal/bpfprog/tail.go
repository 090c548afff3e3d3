// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// tail says when to read the end of /proc/kallsyms, which alone lists trampolines and
// pages. It takes the kernel time that grows with the square of the number of programs:
// 300 ms for some 3,000.
type tail struct {
	procfs string
	budget time.Duration
	wanted bool
	lost   time.Time     // when records were lost for the last time, or a reading was of no use
	read   time.Time     // when it was read last, to some use
	rest   time.Duration // after readings that exceeded the budget, until it is read again without another reason
}

// The end of /proc/kallsyms is read when no records were lost for some time, at most so
// often, and for so long. Where that was too short, it is read again, each time later.
const (
	quiet     = 10 * time.Second
	readEvery = time.Minute
	budget    = 250 * time.Millisecond
	maxRest   = time.Hour
)

var errBudget = fmt.Errorf("kallsyms exceeded its %v read budget", budget)

// pageSize is the size of trampolines as they are announced, and of pages.
const pageSize = 4 << 10

// due returns when it is to be read.
func (t *tail) due() time.Time {
	every := readEvery
	if !t.wanted {
		if every = t.rest; every == 0 {
			return never
		}
	}
	at := t.read.Add(every)
	if calm := t.lost.Add(quiet); calm.After(at) {
		return calm
	}
	return at
}

// done notes that it was read to its end or, if it was not, until the budget was exceeded. That
// can have been because the machine was busy, or programs may go until it is read again.
func (t *tail) done(exceeded bool) {
	t.wanted = false
	if exceeded {
		t.rest = min(max(readEvery, 2*t.rest), maxRest)
	} else {
		t.rest = 0
	}
}

// lines reads the lines, and returns those that it has read also with an error. It calls
// pace while it does.
func (t *tail) lines(ctx context.Context, pace func()) ([]line, error) {
	file, err := os.Open(filepath.Join(t.procfs, "kallsyms"))
	if err != nil {
		return nil, fmt.Errorf("reading kernel symbols: %w", err)
	}
	defer file.Close()
	return parseTail(ctx, paced{file, pace}, t.budget)
}

type paced struct {
	io.Reader
	pace func()
}

func (p paced) Read(to []byte) (int, error) {
	p.pace()
	return p.Reader.Read(to)
}

// line is a symbol of the end of /proc/kallsyms.
type line struct {
	addr   uint64
	origin timeline.Origin
	name   string
}

// parseTail reads the parts of a list of kernel symbols that come after the modules, for
// as long as the budget lasts. It returns what it has read, also with an error.
func parseTail(ctx context.Context, r io.Reader, budget time.Duration) (lines []line, err error) {
	scanner := kallsyms.NewScanner(r)
	err = scanner.SkipToModules()
	began := time.Time{}
	hidden := true
	n := 0
	for err == nil {
		var l kallsyms.Line
		if err = scanner.Scan(&l); err != nil {
			break
		}
		origin, ok := originOfPart(string(l.Module), l.Name)
		if !ok {
			continue
		}
		if began.IsZero() {
			began = time.Now()
		}
		if n%32 == 0 && (time.Since(began) > budget || ctx.Err() != nil) {
			err = errBudget
			break
		}
		n++
		hidden = hidden && l.Addr == 0
		if symtab.IsCode(l.Type) && origin != timeline.OriginBPF {
			lines = append(lines, line{addr: l.Addr, origin: origin, name: string(l.Name)})
		}
	}
	switch {
	case n > 0 && hidden:
		return nil, kallsyms.ErrRestricted
	case errors.Is(err, io.EOF):
		return lines, nil
	case errors.Is(err, errBudget):
		return lines, err
	}
	return lines, fmt.Errorf("reading kernel symbols: %w", err)
}

// originOfPart says what stands in a part of the list (kernel/kallsyms.c).
func originOfPart(module string, name []byte) (timeline.Origin, bool) {
	switch {
	case module == "bpf" && timeline.TagOf(string(name)) != "":
		return timeline.OriginBPF, true
	case module == "bpf":
		return timeline.OriginTrampoline, true
	case strings.HasPrefix(module, "__builtin__"): // ftrace, kprobes
		return timeline.OriginOOL, true
	}
	return 0, false
}
