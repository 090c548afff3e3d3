// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/hot"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packview"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topui"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/internal/perfring"
)

// top shows the hottest functions, of this machine or in a file.
type top struct {
	flags      topFlags
	bpf        topBPF
	options    live.Options
	duration   time.Duration
	count      int
	cumulative bool
	by         string // a key of topGroupings; empty for functions
	output     string
	idle       bool   // with waits, kernel threads that wait in their main function, too
	kind       string // of values in files; empty for the first
}

// topGroupings are the values of --by.
var topGroupings = map[string]hot.Grouping{
	"process": hot.ByProcess, "thread": hot.ByThread, "container": hot.ByContainer, "cpu": hot.ByCPU,
}

func newTop() *cobra.Command {
	var t top
	cmd := &cobra.Command{
		Use:   "top [FILE...]",
		Short: "Show the hottest kernel functions of this machine, live, or of profiles in a file",
		Long: "Show the kernel functions in which this machine spends its time. top takes samples with perf\n" +
			"events, without BPF, and refreshes the table every two seconds; press ? for its keys. It needs\n" +
			"root, or CAP_PERFMON and CAP_SYSLOG; CAP_SYS_ADMIN adds the names of BPF programs loaded before.\n\n" +
			"SELF is the time in the function itself, TOTAL includes the functions it called. Both are shares\n" +
			"of the time of all sampled CPUs, idle or not. User code is one row, [user space]; the idle loop\n" +
			"has none. The table covers the last five refreshes.\n\n" +
			"With --by, the table is of processes, threads, containers or CPUs; Enter shows the functions of one.\n\n" +
			"With --bpf, the table is of BPF programs, in shares of one CPU: SELF is the time in a program,\n" +
			"TOTAL includes what it called, and INTR is the time in interrupts that arrived meanwhile. LINE is\n" +
			"the source line with most of TOTAL.\n\n" +
			"With --off-cpu, the table is of what threads wait for, in numbers of threads on average: SELF is in\n" +
			"waits of the function itself, not counting the scheduler. Waits include the time until a thread gets\n" +
			"a CPU. This records every context switch, or with -p or -t those of these threads, in the initial PID\n" +
			"namespace only. With -p or -t, threads that have waited since before the start are marked. By process\n" +
			"or thread, RUNQ is the time in the run queue, and STATE is that of threads which still wait.\n\n" +
			"With --locate, the core kernel has names even if it hides its symbols; --pack names its pack.\n\n" +
			"With --duration, top prints the table once, for all samples. So it does with JSON, and if the input or\n" +
			"the output is no terminal, or one without control codes (TERM=dumb); without --duration, it then\n" +
			"samples for one --delay.\n\n" +
			"With FILE, top samples nothing. It prints the functions in the profiles: SELF counts the samples\n" +
			"in the function itself, TOTAL also those in what it called. Percentages are of the samples in the\n" +
			"kernel. --by groups the samples of files, too; then percentages are of all samples.\n\n" +
			filesHelp,
		Example: "  kernelsym top\n" +
			"  kernelsym top --bpf --stats\n" +
			"  kernelsym top --by container\n" +
			"  kernelsym top --off-cpu -p 1234\n" +
			"  kernelsym top -p 1234 --cum\n" +
			"  kernelsym top --duration 10s --output json | jq -r '.functions[].function'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := t.check(cmd, args); err != nil {
				return usage(cmd, err)
			}
			if len(args) > 0 {
				return t.printFiles(cmd, args)
			}
			return t.withEvent(t.run(cmd))
		},
	}
	flags := cmd.Flags()
	flags.IntVarP(&t.count, "count", "n", 25, "number of rows to print, 0 for all")
	flags.BoolVar(&t.cumulative, "cum", false, "sort by the time that includes what the function called")
	flags.StringVar(&t.by, "by", "", "show processes, threads, containers or CPUs, not functions: process, thread, container, cpu; the key g changes it")
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(groupingNames(), cobra.ShellCompDirectiveNoFileComp))
	flags.DurationVar(&t.duration, "duration", 0, "sample for this long, such as 10s, and print the table once")
	t.flags.add(cmd, &t.options)
	flags.BoolVarP(&t.idle, "idle", "i", false, "with --off-cpu, also show kernel threads that wait in their main function; the key i changes it")
	outputFlag(cmd, &t.output, oneObject)
	typeFlag(flags, &t.kind)
	t.bpf.add(flags)
	return cmd
}

// errOnlyLive is returned for a sampling flag that is used with a FILE.
var errOnlyLive = errors.New("is about sampling this machine: it cannot be used with a FILE")

// check checks the flags and completes the options.
func (t *top) check(cmd *cobra.Command, args []string) error {
	switch {
	case t.count < 0:
		return fmt.Errorf("-n is %d: it takes a number of rows, 0 for all", t.count)
	case t.duration < 0:
		return fmt.Errorf("--duration is %s: it takes a time, such as 10s", t.duration)
	case t.by != "" && topGroupings[t.by] == "":
		return fmt.Errorf("--by is %q: it takes %s", t.by, strings.Join(groupingNames(), ", "))
	case t.by != "" && t.cumulative:
		return errors.New("--cum is about functions: --by has none")
	case t.by != "" && t.bpf.first:
		return errors.New("--by and --bpf are different tables: use one of them")
	case t.idle && !t.options.OffCPU && len(args) == 0:
		return errors.New("--idle is about waits: it needs --off-cpu")
	case t.bpf.stats && !t.bpf.first:
		return errors.New("--stats is about BPF programs: it needs --bpf")
	}
	if len(args) == 0 {
		if err := t.flags.checkLocate(); err != nil {
			return err
		}
		if cmd.Flags().Changed("type") {
			return errors.New("--type is about profiles in files: it needs a FILE")
		}
		if err := t.flags.checkOffCPU(cmd, &t.options); err != nil {
			return err
		}
		t.bpf.setDefaults(cmd.Flags(), &t.options)
		return t.flags.apply(&t.options)
	}
	for _, name := range slices.Concat([]string{"duration", "idle"}, topFlagNames, topBPFNames) {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s %w", name, errOnlyLive)
		}
	}
	return nil
}

// withEvent adds to the error of an event that this machine does not have which one it has.
func (t *top) withEvent(err error) error {
	if t.options.Event == kernelstack.EventCycles && errors.Is(err, perfring.ErrUnsupported) {
		return fmt.Errorf("%w; use --event %s", err, kernelstack.EventClock)
	}
	return err
}

func groupingNames() []string { return slices.Sorted(maps.Keys(topGroupings)) }

// sort returns the order of the functions.
func (t *top) sort() string {
	if t.cumulative {
		return hot.ByTotal
	}
	return hot.BySelf
}

// printFiles prints the functions in profile files.
func (t *top) printFiles(cmd *cobra.Command, names []string) error {
	file := hot.NewFile(topGroupings[t.by], t.kind)
	err := withinMemory(cmd.Context(), func() error { return readFiles(cmd, names, file.Add) })
	if err == nil {
		err = checkKinds(cmd, file.Kinds(), t.kind)
	}
	if err != nil {
		return err
	}
	if t.output == outputJSON {
		return stdout(cmd).JSON(file.JSON(t.sort(), t.count), "  ")
	}
	return file.Print(stdout(cmd), t.sort(), t.count)
}

// refreshes is the number of refreshes that the table covers.
const refreshes = 5

// run samples this machine until a signal comes.
func (t *top) run(cmd *cobra.Command) error {
	if t.flags.locate {
		packs, err := packview.Open(t.flags.packs)
		if err != nil {
			return err
		}
		t.options.Packs = packs
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills the process
	in, out := terminal(cmd.InOrStdin()), terminal(stdout(cmd).Raw())
	if t.duration > 0 || t.output == outputJSON || in == nil || out == nil || isDumb() {
		return t.printOnce(ctx, cmd)
	}
	window := refreshes * t.options.Interval
	views := []topview.View{t.functions(window)}
	if !t.options.OffCPU { // BPF programs do not wait
		programs, counting, err := t.programs(ctx, window)
		if err != nil {
			return err
		}
		defer counting.Close()
		views = append(views, programs)
	}
	views = append(views, t.groups(window))
	first := 0
	switch {
	case t.bpf.first:
		first = 1
	case t.by != "":
		first = len(views) - 1
	}
	views = slices.Concat(views[first:], views[:first])
	t.options.Containers, t.options.States = true, true
	return topui.Run(ctx, topui.Terminal{In: in, Out: out}, views,
		func(ctx context.Context, visit func(*live.Batch)) error { return live.Run(ctx, t.options, visit) })
}

// printOnce samples for the duration or, without one, for the time of one refresh, and prints the
// table once. An interrupt ends it early.
func (t *top) printOnce(ctx context.Context, cmd *cobra.Command) error {
	if t.duration == 0 {
		t.duration = t.options.Interval
	}
	view := t.functions(0)
	if t.by != "" {
		view = t.groups(0)
		by := topGroupings[t.by]
		t.options.Containers, t.options.States = by == hot.ByContainer, by == hot.ByThread || by == hot.ByProcess
	}
	if t.bpf.first {
		programs, counting, err := t.programs(ctx, 0)
		if err != nil {
			return err
		}
		defer counting.Close()
		view = programs
	}
	t.options.Duration = t.duration
	sampled := false
	err := live.Run(ctx, t.options, func(b *live.Batch) {
		sampled = true
		view.Add(b)
	})
	if err != nil {
		return err
	}
	if !sampled {
		return context.Cause(ctx)
	}
	if t.output == outputJSON {
		return stdout(cmd).JSON(view.JSON(t.count), "  ")
	}
	return topview.Print(stdout(cmd), view, view.Sorts()[0], t.count)
}
