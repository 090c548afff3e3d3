// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/patterns"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/running"
	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// listed is a loaded piece of kernel code.
type listed struct {
	Kind    string            `json:"kind"`
	Address printable.Address `json:"address"`
	Bytes   uint64            `json:"bytes,omitempty"` // 0 if uncertain
	Name    string            `json:"name"`            // empty if the kernel gives none
	Age     *seconds          `json:"age_s,omitempty"` // nil if the kernel does not report it
	Source  string            `json:"source"`          // where the kernel lists it

	// Of the core kernel and modules.
	Symbols int    `json:"symbols,omitempty"`
	BuildID string `json:"build_id,omitempty"`

	// Of functions of BPF programs.
	Program uint32 `json:"program_id,omitempty"`
	Type    string `json:"program_type,omitempty"`
}

// seconds is a duration that JSON has in seconds.
type seconds time.Duration

// MarshalJSON encodes the duration as a number.
//
//nolint:unparam // of json.Marshaler
func (s seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(s).Seconds(), 'f', 3, 64), nil
}

// String formats the duration in its largest unit.
func (s seconds) String() string {
	const day = 24 * time.Hour
	switch d := time.Duration(s); {
	case d >= 2*day:
		return fmt.Sprintf("%dd", d/day)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	default:
		return fmt.Sprintf("%ds", d/time.Second)
	}
}

// listSources maps each kind of code to the list that the kernel has it in.
var listSources = [timeline.NumOrigins]string{
	timeline.OriginKernel: "kallsyms", timeline.OriginModule: "modules", timeline.OriginBPF: "bpf",
	timeline.OriginTrampoline: "kallsyms", timeline.OriginOOL: "kallsyms",
}

// kindNames returns the names of the kinds of code.
func kindNames() (names []string) {
	for o := range timeline.Origin(timeline.NumOrigins) {
		names = append(names, o.String())
	}
	return names
}

// errNotLoaded is returned for names that no loaded code has.
var errNotLoaded = errors.New("not loaded")

func newList() *cobra.Command {
	var k running.Kernel
	var output string
	var kinds []string
	cmd := &cobra.Command{
		Use:   "list [NAME...]",
		Short: "List the modules, BPF functions and trampolines that are loaded now",
		Long: "List the core kernel, and each module, BPF function, trampoline and page of code that the kernel\n" +
			"has now, in the order of their addresses. NAME is a name, or a pattern with *, ? and [...].\n\n" +
			"AGE is the time since a BPF program was loaded; for other code the kernel does not report it. BYTES\n" +
			"is - where the kernel reports a length larger than the code. SOURCE is where the kernel lists it:\n" +
			"/proc/kallsyms, /proc/modules or bpf(2). Code without a name is shown as [no name].\n\n" +
			"The exit status is 1 if a NAME is not loaded.",
		Example: "  sudo kernelsym list\n" +
			"  sudo kernelsym list --kind bpf --kind trampoline\n" +
			"  sudo kernelsym list 'nf_*' 'bpf_prog_*_cil_*' --output json",
		RunE: func(cmd *cobra.Command, args []string) error {
			k.Warn = func(err error) { warn(cmd, err) }
			wanted, err := newListFilter(kinds, args)
			if err != nil {
				return usage(cmd, err)
			}
			found, err := list(cmd.Context(), &k, wanted)
			if err != nil {
				return err
			}
			if output == outputJSON {
				err = writeJSON(stdout(cmd), found...)
			} else {
				err = writeList(stdout(cmd), found)
			}
			if missing := wanted.names.Unmatched(); err == nil && len(missing) > 0 {
				err = fmt.Errorf("%w: %s", errNotLoaded, strings.Join(missing, ", "))
			}
			return err
		},
	}
	machineFlags(cmd, &k.Procfs, &k.Sysfs)
	outputFlag(cmd, &output, objectPerLine)
	cmd.Flags().StringSliceVar(&kinds, "kind", nil, "list only this kind: "+strings.Join(kindNames(), ", ")+" (repeatable)")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kindNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

var errKind = errors.New("there is no such kind")

// newListFilter returns a filter of kinds and names. An empty list allows all.
func newListFilter(kinds, names []string) (*listFilter, error) {
	for _, kind := range kinds {
		if !slices.Contains(kindNames(), kind) {
			return nil, fmt.Errorf("--kind is %q: %w; it takes %s", kind, errKind, strings.Join(kindNames(), ", "))
		}
	}
	list, err := patterns.New(names...)
	return &listFilter{kinds, list, len(names) == 0}, err
}

// listFilter selects the code to list.
type listFilter struct {
	kinds   []string
	names   *patterns.List
	anyName bool // names is empty
}

func (f *listFilter) wants(m *timeline.Image) bool {
	return (len(f.kinds) == 0 || slices.Contains(f.kinds, m.Origin.String())) && (f.anyName || f.names.Match(m.Name()))
}

// list returns the loaded code that the filter selects, in the order of the addresses.
func list(ctx context.Context, k *running.Kernel, wanted *listFilter) (found []listed, err error) {
	snapshot, err := k.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	ages := programAges{now: perfring.Boottime.Now()}
	for _, t := range snapshot.Tables() {
		for _, m := range t.Loaded() {
			if wanted.wants(m) {
				found = append(found, describeImage(snapshot, m, &ages))
			}
		}
	}
	slices.SortStableFunc(found, func(a, b listed) int { return cmp.Compare(a.Address, b.Address) })
	return found, nil
}

func describeImage(s *timeline.Snapshot, m *timeline.Image, ages *programAges) listed {
	l := listed{Kind: m.Origin.String(), Address: printable.Address(m.Start), Bytes: m.End - m.Start, Name: m.Name(), Source: listSources[m.Origin]}
	if s.IsShared(m) {
		l.Bytes = 0
	}
	if !m.IsFunction() {
		l.Bytes -= m.Text.Gap.End - m.Text.Gap.Start
		l.Symbols, l.BuildID = m.Len(), m.BuildID()
	}
	if m.Program != nil {
		l.Program, l.Type, l.Age = m.Program.ID, m.Program.Type, ages.of(m.Program.ID)
	}
	return l
}

// programAges asks the kernel when programs were loaded.
type programAges struct {
	now    int64
	reader bpf.Reader
	id     uint32 // the last program asked for: functions of a program come together
	age    *seconds
}

// of returns how long ago a program was loaded, or nil if the kernel does not report it.
func (a *programAges) of(id uint32) *seconds {
	if id == a.id {
		return a.age
	}
	a.id, a.age = id, nil
	if p, err := a.reader.Program(id, 0); err == nil {
		age := seconds(a.now - p.LoadTime)
		a.age = &age
	}
	return a.age
}

// writeList prints a table.
func writeList(out *printable.Printer, list []listed) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	rows := printable.New(table, false)
	rows.Printf("ADDRESS\tBYTES\tKIND\tAGE\tPROGRAM\tSOURCE\tNAME\n")
	for _, l := range list {
		bytes, age, program := "-", "-", "-"
		if l.Bytes != 0 {
			bytes = strconv.FormatUint(l.Bytes, 10)
		}
		if l.Age != nil {
			age = l.Age.String()
		}
		if l.Program != 0 {
			program = strconv.FormatUint(uint64(l.Program), 10)
		}
		rows.Printf("%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Address, bytes, l.Kind, age, program, l.Source, cmp.Or(l.Name, printable.NoName))
	}
	return table.Flush()
}
