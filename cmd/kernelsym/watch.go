// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/bpfprog"
	"github.com/kernelsym/kernelsym/internal/kmod"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

type watch struct {
	procfs, sysfs string
	errs          *printable.Printer
	say           func(error) // prints a warning

	mu      sync.Mutex // held while something is printed
	printer printer
	failed  error // the error of printing
	watchBegin
	unshown unshown
}

// watchBegin collects what was loaded before watching began.
type watchBegin struct {
	waiting int      // number of sources that have not reported yet
	there   []string // how much is loaded, by source
}

func newWatch() *cobra.Command {
	var w watch
	var output string
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Print modules and BPF functions as they come and go",
		Long: "Print a line for each module and BPF function, trampoline and page of code that the kernel\n" +
			"loads or unloads: when, which process loaded it, and its name. JSON also has its kind, address\n" +
			"and length, the number of the BPF program, and how long after the event this process had it.\n\n" +
			"Code that is loaded already at the start is only counted, and so is code that is loaded and\n" +
			"unloaded within a few milliseconds. It ends with an interrupt (Ctrl-C).",
		Example: "  kernelsym watch\n" +
			"  kernelsym watch --output json | jq 'select(.event == \"load\")'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w.errs, w.say = stderr(cmd), func(err error) { warn(cmd, err) }
			w.printer = printer{stdout(cmd), output == outputJSON}
			return w.run(cmd.Context())
		},
	}
	machineFlags(cmd, &w.procfs, &w.sysfs)
	outputFlag(cmd, &output)
	return cmd
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

// run runs the sources until ctx is done or none is left.
func (w *watch) run(ctx context.Context) error {
	if err := w.printer.begin(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	loaders := newLoaders(w.procfs)
	list := w.sources(loaders)
	errs := make([]error, len(list))
	w.waiting, w.there = len(list), make([]string, len(list))
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
	w.unshown.say(w.errs, true)
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
func (w *watch) sources(l *loaders) []symcache.Source {
	functions := bpfprog.Options{Procfs: w.procfs, Sysfs: w.sysfs, Trampolines: true, History: remembered, PublishChanges: true}
	return []symcache.Source{
		kmod.NewSource(w.procfs, w.sysfs, 0, remembered),
		bpfprog.NewSourceFrom(functions, func() (bpfprog.EventSource, error) {
			records := perfring.SymbolOptions(w.sysfs)
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
func (w *watch) begun(source int, there string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.there[source] = there
	w.waiting--
	list := slices.DeleteFunc(slices.Clone(w.there), func(s string) bool { return s == "" })
	if w.waiting == 0 && len(list) > 0 {
		w.errs.Printf("Watching: %s are loaded now. Ctrl-C ends it.\n", strings.Join(list, " and "))
	}
}

// warn prints an error of a source, but not twice in a row.
func (w *watch) warn(s symcache.Source, err error, said *string) {
	if err == nil || errors.Is(err, context.Canceled) || err.Error() == *said {
		return
	}
	*said = err.Error()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.say(fmt.Errorf("%s: %w", s.Name(), err))
}

// print prints changes, and the number of changes that it cannot show. It reports whether printing
// worked.
func (w *watch) print(changes []change, brief int, lost int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unshown.add(brief, lost)
	w.unshown.say(w.errs, false)
	for i := range changes {
		if w.failed == nil {
			w.failed = w.printer.print(&changes[i])
		}
	}
	return w.failed == nil
}
