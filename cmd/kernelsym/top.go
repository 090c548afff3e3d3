package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/profilefile"
)

func newTop() *cobra.Command {
	var count int
	var cumulative bool
	cmd := &cobra.Command{
		Use:   "top FILE...",
		Short: "Print the hottest kernel functions of profiles in a file",
		Long: "Print the kernel functions in which most samples were taken. " + filesHelp + "\n\n" +
			"flat counts the samples in the function itself, cum also those in what it called.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if count < 0 {
				return usage(cmd, fmt.Errorf("-n is %d: it takes a number of functions, 0 for all", count))
			}
			t := newHot()
			if err := readFiles(cmd, args, func(pd pprofile.Profiles) error { return t.add(pd) }); err != nil {
				return err
			}
			return t.print(cmd.OutOrStdout(), count, cumulative)
		},
	}
	cmd.Flags().IntVarP(&count, "count", "n", 25, "number of functions to print, 0 for all")
	cmd.Flags().BoolVar(&cumulative, "cum", false, "sort by the samples that include what the function called")
	return cmd
}

// hot counts the samples in kernel functions.
type hot struct {
	functions     map[function]*samples
	all, kernel   int64 // samples, and those in the kernel
	frames, named int64 // of kernel code, once for each sample
	start, end    int64 // nanoseconds since the Unix epoch
}

type function struct {
	name, module string
}

type samples struct {
	flat, cum int64
}

func newHot() *hot { return &hot{functions: make(map[function]*samples)} }

// noName stands for a function of which the name is not known.
const noName = "[no name]"

func (h *hot) add(pd pprofile.Profiles) error {
	frames, err := profilefile.KernelFrames(pd)
	if err != nil {
		return err
	}
	stacks := pd.Dictionary().StackTable()
	for _, rp := range pd.ResourceProfiles().All() {
		for _, sp := range rp.ScopeProfiles().All() {
			for _, p := range sp.Profiles().All() {
				h.addTime(int64(p.Time()), int64(p.Time())+int64(p.DurationNano()))
				for _, s := range p.Samples().All() {
					if uint(s.StackIndex()) >= uint(stacks.Len()) {
						return fmt.Errorf("%w: stack %d", profilefile.ErrInvalid, s.StackIndex())
					}
					if err := h.addStack(stacks.At(int(s.StackIndex())), frames, profilefile.Weight(s)); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func (h *hot) addTime(start, end int64) {
	if h.start == 0 || start < h.start {
		h.start = start
	}
	h.end = max(h.end, end)
}

func (h *hot) addStack(stack pprofile.Stack, frames []profilefile.KernelFrame, weight int64) error {
	h.all += weight
	seen := make(map[function]bool)
	for position, loc := range stack.LocationIndices().All() {
		if uint(loc) >= uint(len(frames)) {
			return fmt.Errorf("%w: location %d", profilefile.ErrInvalid, loc)
		}
		f := frames[loc]
		if !f.Kernel {
			continue
		}
		h.frames += weight
		if f.Name != "" {
			h.named += weight
		}
		fn := function{cmp.Or(f.Name, noName), f.Module}
		s := h.functions[fn]
		if s == nil {
			s = &samples{}
			h.functions[fn] = s
		}
		if position == 0 {
			s.flat += weight
		}
		if !seen[fn] {
			s.cum += weight
		}
		seen[fn] = true
	}
	if len(seen) > 0 {
		h.kernel += weight
	}
	return nil
}

func (h *hot) print(w io.Writer, count int, cumulative bool) error {
	if h.kernel == 0 {
		_, err := fmt.Fprintf(w, "No kernel frames in %d samples.\n", h.all)
		return err
	}
	percent := func(part, of int64) float64 { return 100 * float64(part) / float64(max(of, 1)) }
	_, err := fmt.Fprintf(w, "%d of %d samples in the kernel, over %s; %.1f %% of %d kernel frames have a name\n\n",
		h.kernel, h.all, time.Duration(h.end-h.start).Round(100*time.Millisecond), percent(h.named, h.frames), h.frames)
	if err != nil {
		return err
	}
	list := slices.SortedFunc(maps.Keys(h.functions), func(a, b function) int {
		x, y := h.functions[a], h.functions[b]
		if cumulative {
			x, y = &samples{x.cum, x.flat}, &samples{y.cum, y.flat}
		}
		return cmp.Or(cmp.Compare(y.flat, x.flat), cmp.Compare(y.cum, x.cum), cmp.Compare(a.name, b.name), cmp.Compare(a.module, b.module))
	})
	if count > 0 && len(list) > count {
		list = list[:count]
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "flat\tflat%\tcum\tcum%\t  function\n")
	for _, f := range list {
		s := h.functions[f]
		fmt.Fprintf(table, "%d\t%.1f%%\t%d\t%.1f%%\t  %s\n", s.flat, percent(s.flat, h.kernel), s.cum, percent(s.cum, h.kernel), f)
	}
	return table.Flush()
}

func (f function) String() string {
	if f.module == "" {
		return f.name
	}
	return f.name + " [" + f.module + "]"
}
