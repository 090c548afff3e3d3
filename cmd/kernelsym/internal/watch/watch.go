// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/bpfprog"
	"github.com/kernelsym/kernelsym/internal/kmod"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// Options say what to watch, and where to print.
type Options struct {
	Procfs, Sysfs string             // where the machine's /proc and /sys are mounted
	JSON          bool               // print an object for each change, rather than a table
	Out, Errs     *printable.Printer // for changes and for messages
	Warn          func(error)        // prints why something is missing; it is not called by two goroutines at once
}

// A watcher prints what several sources report.
type watcher struct {
	opts Options

	mu      sync.Mutex // held while something is printed
	printer printer
	failed  error // the error of printing
	begin   begin
	unshown unshown
}

// begin collects what was loaded before watching began.
type begin struct {
	waiting int      // number of sources that have not reported yet
	there   []string // how much is loaded, by source
}

// remembered limits how much unloaded code is remembered. It is enough to report when code was
// unloaded.
var remembered = timeline.Limits{TTL: time.Minute, MaxEntries: 1 << 16}

// watched names the things that each source is watched for.
var watched = map[string]struct {
	thing  string
	origin timeline.Origin
}{
	"modules": {"module", timeline.OriginModule},
	"bpf":     {"BPF function", timeline.OriginBPF},
}

// Run prints changes until ctx is done, nothing more can be printed, or no source is left. It returns an error if printing
// fails, or if no source could be watched until ctx was done.
func Run(ctx context.Context, o Options) error {
	w := watcher{opts: o, printer: printer{o.Out, o.JSON}}
	if err := w.printer.begin(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	loaders := newLoaders(o.Procfs)
	list := sources(o, loaders)
	errs := make([]error, len(list))
	w.begin = begin{len(list), make([]string, len(list))}
	var wait sync.WaitGroup
	for i, s := range list {
		wait.Go(func() {
			c := changes{}
			if s.Name() == "bpf" {
				c.loaders = loaders
			}
			missing, first := "", true
			errs[i] = s.Run(ctx, func(u symcache.Update) {
				w.warn(s, u.Degraded, &missing)
				if first {
					first = false
					w.begun(i, count(s.Name(), u.Table))
				}
				if !w.print(c.next(u.Table), c.loaders.unseen(), u.Changes.Counts.LostRecords) {
					cancel()
				}
			})
			if errs[i] != nil {
				w.warn(s, fmt.Errorf("%ss are not watched: %w", watched[s.Name()].thing, errs[i]), &missing)
			}
			if first {
				w.begun(i, "")
			}
		})
	}
	wait.Wait()
	w.unshown.add(loaders.unseen(), 0)
	w.unshown.say(w.opts.Errs, true)
	if w.failed != nil {
		return w.failed
	}
	for _, err := range errs {
		if err == nil || errors.Is(err, context.Canceled) {
			return nil // at least one source ran until the end
		}
	}
	return errors.Join(errs...)
}

// sources returns the sources to watch. They read records a few milliseconds after the kernel
// writes them.
func sources(o Options, l *loaders) []symcache.Source {
	functions := bpfprog.Options{Procfs: o.Procfs, Sysfs: o.Sysfs, Trampolines: true, History: remembered, PublishChanges: true}
	return []symcache.Source{
		kmod.NewSource(o.Procfs, o.Sysfs, 0, remembered),
		bpfprog.NewSourceFrom(functions, func() (bpfprog.EventSource, error) {
			records := perfring.SymbolOptions(o.Sysfs)
			records.Delay = 5 * time.Millisecond
			r, err := perfring.Open(records)
			if err != nil {
				return nil, err
			}
			return noting{r, l}, nil
		}, new(bpf.Reader)),
	}
}

// count returns the number of loaded things that a source is watched for, as text.
func count(source string, t *timeline.Table) string {
	n := t.Count()[watched[source].origin].Symbols
	if watched[source].origin == timeline.OriginModule {
		n = len(t.Loaded())
	}
	return plural.Of(n, watched[source].thing)
}

// begun prints how much is loaded once all sources have reported. It leaves out sources that do not
// work.
func (w *watcher) begun(source int, there string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begin.there[source] = there
	w.begin.waiting--
	list := slices.DeleteFunc(slices.Clone(w.begin.there), func(s string) bool { return s == "" })
	if w.begin.waiting == 0 && len(list) > 0 {
		w.opts.Errs.Printf("Watching: %s are loaded now. Ctrl-C ends it.\n", strings.Join(list, " and "))
	}
}

// warn prints an error of a source, but not twice in a row.
func (w *watcher) warn(s symcache.Source, err error, said *string) {
	if err == nil || errors.Is(err, context.Canceled) || err.Error() == *said {
		return
	}
	*said = err.Error()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opts.Warn(fmt.Errorf("%s: %w", s.Name(), err))
}

// print prints changes, and the number of changes that it cannot show. It reports whether printing
// worked.
func (w *watcher) print(changes []change, brief int, lost int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unshown.add(brief, lost)
	w.unshown.say(w.opts.Errs, false)
	for i := range changes {
		if w.failed == nil {
			w.failed = w.printer.print(&changes[i])
		}
	}
	return w.failed == nil
}
