package bpfprog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// budget is for how long the end of /proc/kallsyms is read. Formatting it takes the
// kernel time that grows with the square of the number of programs: 300 ms for some
// 3,000.
const budget = 250 * time.Millisecond

// errBudget says that there are too many programs.
var errBudget = fmt.Errorf("there is too much of it: reading its names takes more than %v", budget)

// readOthers records what is there and in no list of programs: trampolines and
// out-of-line pages and, if programs cannot be listed, their functions.
func (f *follower) readOthers(ctx context.Context) error {
	if !f.opts.Trampolines && f.listErr == nil {
		return nil
	}
	others, err := f.readSymbols(ctx)
	f.take(others, f.began)
	f.doubts.looked, f.doubts.later = time.Now(), true
	return err
}

// readSymbols reads the end of the kernel's list of symbols. It returns what it has
// read, also with an error.
func (f *follower) readSymbols(ctx context.Context) ([]other, error) {
	file, err := os.Open(filepath.Join(f.opts.Procfs, "kallsyms"))
	if err != nil {
		return nil, fmt.Errorf("reading kernel symbols: %w", err)
	}
	defer file.Close()
	return parseOthers(file, func() bool { return ctx.Err() != nil })
}

// isListed reports whether the list of programs tells of functions of an origin.
func (f *follower) isListed(origin symtab.Origin) bool {
	return origin == symtab.OriginBPF && f.listErr == nil
}

// take records what was read of the kernel's symbols and is new, and reports whether
// anything is. What the first look of all finds is taken to have been there always, or
// since what was in its place went. What a later one finds was perhaps there since an
// instant.
func (f *follower) take(others []other, maybe int64) (some bool) {
	at := f.now()
	for i := range others {
		o := &others[i]
		if f.isListed(o.origin) || o.origin != symtab.OriginBPF && !f.opts.Trampolines {
			continue
		}
		if there := f.functions.At(o.addr); there != nil && (there.Start == o.addr || !there.Guessed) {
			continue // it is known better
		}
		size := maxSize(o)
		function := symtab.NewFunction(o.origin, o.name, o.addr, size, symtab.Always)
		function.Guessed = true
		since := f.functions.FreeSince(o.addr, o.addr+uint64(size))
		if f.doubts.later || since != math.MinInt64 {
			function.Valid = symtab.Since(at)
			function.Slack = symtab.NewSlack(time.Duration(at-max(maybe, since)), 0)
		}
		f.functions.Load(function)
		some = true
	}
	return some
}

// maxSize returns the most bytes that code is taken to have of which only the address
// is known; all ends where something else begins. Trampolines and pages have one page.
// A program can have more than is said here, up to the end of the page after the one
// in which it begins, but few have, and what lies behind them is as likely the place
// of one that is gone: there, no name is better than a wrong one.
func maxSize(o *other) uint32 {
	const page = 4 << 10
	if o.origin == symtab.OriginBPF {
		return 2*page - uint32(o.addr%page)
	}
	return page
}

// other is a symbol of the end of the kernel's list.
type other struct {
	addr   uint64
	origin symtab.Origin
	name   string
}

// parseOthers reads the parts of a list of kernel symbols that come after the
// modules, for as long as the budget lasts. It returns what it has read, also with
// an error.
func parseOthers(r io.Reader, canceled func() bool) (others []other, err error) {
	scanner := kallsyms.NewScanner(r)
	err = scanner.SkipToModules()
	began := time.Time{}
	hidden := true
	for n := 0; err == nil; {
		var line kallsyms.Line
		if err = scanner.Scan(&line); err != nil {
			break
		}
		origin, ok := originOfPart(string(line.Module), line.Name)
		if !ok {
			continue
		}
		if began.IsZero() {
			began = time.Now()
		}
		if n%32 == 0 && (time.Since(began) > budget || canceled()) {
			return others, errBudget
		}
		n++
		hidden = hidden && line.Addr == 0
		if symtab.IsCode(line.Type) {
			others = append(others, other{addr: line.Addr, origin: origin, name: string(line.Name)})
		}
	}
	if !errors.Is(err, io.EOF) {
		return others, fmt.Errorf("reading kernel symbols: %w", err)
	}
	if len(others) > 0 && hidden {
		return nil, kallsyms.ErrRestricted
	}
	return others, nil
}

// originOfPart says what stands in a part of the list (kernel/kallsyms.c).
func originOfPart(module string, name []byte) (symtab.Origin, bool) {
	switch {
	case module == "bpf" && symtab.TagOf(string(name)) != "":
		return symtab.OriginBPF, true
	case module == "bpf":
		return symtab.OriginTrampoline, true
	case strings.HasPrefix(module, "__builtin__"): // ftrace, kprobes
		return symtab.OriginOOL, true
	}
	return 0, false
}
