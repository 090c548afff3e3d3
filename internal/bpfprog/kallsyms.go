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

// kallsymsTail decides when to read the end of /proc/kallsyms, the only list of trampolines and
// pages. Reading it costs the kernel time that grows with the square of the number of programs:
// 300 ms for some 3,000.
type kallsymsTail struct {
	wanted bool
	lost   time.Time     // when records were lost last, or a reading was in vain
	read   time.Time     // when it was last read to some use
	rest   time.Duration // after readings that exceeded the budget, the time until the next one
}

// The end of /proc/kallsyms is read when no records were lost for some time, at most once a minute, and for at most the
// budget. If that was too short, it is read again, each time after a longer rest.
const (
	quiet     = 10 * time.Second
	readEvery = time.Minute
	budget    = 250 * time.Millisecond
	maxRest   = time.Hour
)

var errBudget = fmt.Errorf("kallsyms exceeded its %v read budget", budget)

// pageSize is the size with which the kernel announces trampolines, and the size of pages.
const pageSize = 4 << 10

// due returns when it must be read next.
func (t *kallsymsTail) due() time.Time {
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

// recordsLost records that records were lost. wanted says whether trampolines and pages are.
func (t *kallsymsTail) recordsLost(wanted bool) { t.lost, t.wanted = time.Now(), wanted }

// reset forgets all readings. wanted says whether it must be read.
func (t *kallsymsTail) reset(wanted bool) {
	*t = kallsymsTail{wanted: wanted}
}

// finish notes that it was read, to its end or until the budget was exceeded. That
// may have been because the machine was busy, or programs may be gone the next time. If code was unloaded
// in the meantime, the kernel may have left out other code: it counts entries to find where it was in the list.
func (t *kallsymsTail) finish(err error, anyUnloaded bool) {
	t.read = time.Now()
	switch {
	case err == nil:
		t.wanted, t.rest = anyUnloaded, 0
	case errors.Is(err, errBudget):
		t.wanted, t.rest = false, min(max(readEvery, 2*t.rest), maxRest)
	}
}

// A kallsymsFile is /proc/kallsyms, and how long its end may be read.
type kallsymsFile struct {
	procfs string
	budget time.Duration
}

// readSymbols reads the symbols, and returns those before an error, too. It calls pace while it reads.
func (f *kallsymsFile) readSymbols(ctx context.Context, pace func()) (kallsymsSymbols, error) {
	file, err := os.Open(filepath.Join(f.procfs, "kallsyms"))
	if err != nil {
		return kallsymsSymbols{}, fmt.Errorf("reading kernel symbols: %w", err)
	}
	defer file.Close()
	return parseTail(ctx, pacedReader{file, pace}, f.budget)
}

// A pacedReader calls pace before each read.
type pacedReader struct {
	io.Reader
	pace func()
}

func (p pacedReader) Read(to []byte) (int, error) {
	p.pace()
	return p.Reader.Read(to)
}

// A kallsymsSymbol is a trampoline or a page in /proc/kallsyms.
type kallsymsSymbol struct {
	addr   uint64
	origin timeline.Origin
	name   string
}

// kallsymsSymbols are the symbols at the end of /proc/kallsyms.
type kallsymsSymbols struct {
	all    []kallsymsSymbol
	hasBPF bool // BPF code is among them; all leaves out programs
}

// parseTail parses the parts of a list of kernel symbols that come after the modules, for
// as long as the budget lasts. It returns the symbols before an error, too.
func parseTail(ctx context.Context, r io.Reader, budget time.Duration) (symbols kallsymsSymbols, err error) {
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
		symbols.hasBPF = symbols.hasBPF || origin != timeline.OriginOOL
		if symtab.IsCode(l.Type) && origin != timeline.OriginBPF {
			symbols.all = append(symbols.all, kallsymsSymbol{addr: l.Addr, origin: origin, name: string(l.Name)})
		}
	}
	switch {
	case n > 0 && hidden:
		return kallsymsSymbols{}, kallsyms.ErrRestricted
	case errors.Is(err, io.EOF):
		return symbols, nil
	case errors.Is(err, errBudget):
		return symbols, err
	}
	return symbols, fmt.Errorf("reading kernel symbols: %w", err)
}

// originOfPart returns the kind of code that a part of the list holds (kernel/kallsyms.c).
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

// hiddenError returns the error for a list of symbols without BPF code. It names the sysctl that hides the code
// (bpf_jit_kallsyms_enabled in include/linux/filter.h), which can be read with CAP_SYS_ADMIN in the initial network namespace.
func hiddenError(procfs string) error {
	for _, sysctl := range []struct{ name, lists string }{{"bpf_jit_harden", "0"}, {"bpf_jit_kallsyms", "1"}} {
		text, err := os.ReadFile(filepath.Join(procfs, "sys/net/core", sysctl.name))
		if value := strings.TrimSpace(string(text)); err == nil && value != sysctl.lists {
			return fmt.Errorf("%w because the sysctl net.core.%s is %s", kallsyms.ErrBPFHidden, sysctl.name, value)
		}
	}
	return fmt.Errorf("%w, possibly because the sysctl net.core.bpf_jit_harden is not 0", kallsyms.ErrBPFHidden)
}
