// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/lookup"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/tasks"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// blockedStacks is the command stacks.
type blockedStacks struct {
	resolver  *lookup.Resolver
	flags     resolverFlags
	processes []uint
	states    []string
	output    string
}

func newStacks() *cobra.Command {
	var b blockedStacks
	cmd := &cobra.Command{
		Use:   "stacks",
		Short: "Print where in the kernel tasks are blocked now",
		Long: "Print the kernel's stacks of tasks that are blocked now, with the tasks that have each of them. Tasks in\n" +
			"state D come first: they cannot be interrupted, and count as load. Stack and state of a task were read\n" +
			"at one instant, while it was not running.\n\n" +
			"The names are the kernel's own. With --pack, functions get their source lines, and those that were\n" +
			"inlined at the place of a call get lines of their own; with --locate, even if the kernel hides its symbols.\n\n" +
			"The stacks come from /proc/PID/stack, which needs root with CAP_SYS_ADMIN and CAP_SYS_PTRACE. In a\n" +
			"container, mount the host's /proc and name it with --procfs: the container's own has only its tasks.",
		Example: "  sudo kernelsym stacks --state D\n" +
			"  sudo kernelsym stacks -p 1234 --pack /var/lib/kernelsym/packs\n" +
			"  sudo kernelsym stacks -o json | jq -r '.frames[0].function'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			reader, err := b.reader()
			if err != nil {
				return usage(cmd, err)
			}
			if b.resolver, err = b.flags.resolver(cmd); err != nil {
				return err
			}
			return b.run(cmd, reader)
		},
	}
	flags := cmd.Flags()
	flags.UintSliceVarP(&b.processes, "pid", "p", nil, "only of these processes, such as 12,34")
	flags.StringSliceVar(&b.states, "state", []string{"D", "S"}, "states of tasks: D, S, and I for idle threads of the kernel; also T and t")
	machineFlags(cmd, &b.flags.procfs, &b.flags.sysfs)
	packFlag(cmd, &b.flags.packs)
	locateFlag(cmd, &b.flags.locate)
	outputFlag(cmd, &b.output, objectPerLine)
	return cmd
}

// reader returns the reader of the tasks that the flags select.
func (b *blockedStacks) reader() (*tasks.Reader, error) {
	r := &tasks.Reader{Procfs: b.flags.procfs, States: strings.Join(b.states, "")}
	isState := func(s string) bool { return len(s) == 1 && strings.IndexByte(tasks.WaitStates, s[0]) >= 0 }
	if wrong := slices.DeleteFunc(slices.Clone(b.states), isState); len(wrong) > 0 || r.States == "" {
		return nil, fmt.Errorf("--state is %q: it takes D, S, I, T or t", strings.Join(wrong, ","))
	}
	var err error
	r.Of.PIDs, err = existing(r.Procfs, kindProcess, b.processes)
	return r, err
}

func (b *blockedStacks) run(cmd *cobra.Command, reader *tasks.Reader) error {
	blocked, err := reader.Read()
	if err != nil {
		return err
	}
	if !showsAllTasks(reader.Procfs) {
		warn(cmd, errors.New("only the tasks of this PID namespace are shown: for all, mount the host's /proc and name it with --procfs"))
	}
	if reader.Refused > 0 {
		warn(cmd, fmt.Errorf("left out %s: %w", plural.Of(reader.Refused, "task"), reader.Reason))
	}
	if reader.Moved > 0 {
		warn(cmd, fmt.Errorf("left out %s that ran again and again", plural.Of(reader.Moved, "task")))
	}
	stacks, err := b.group(cmd.Context(), blocked)
	if err != nil {
		return err
	}
	if b.output == outputJSON {
		return writeJSON(stdout(cmd), stacks...)
	}
	return printStacks(stdout(cmd), stacks)
}

// showsAllTasks reports whether a procfs is that of the initial PID namespace. It is the only one with kthreadd, whose id is
// 2 (rest_init in init/main.c).
func showsAllTasks(procfs string) bool {
	name, err := os.ReadFile(filepath.Join(procfs, "2", "comm"))
	return err == nil && string(name) == "kthreadd\n"
}

// blockedStack is a stack and the tasks blocked there.
type blockedStack struct {
	State  string         `json:"state"`
	Tasks  []blockedTask  `json:"tasks"`
	Frames []blockedFrame `json:"frames"` // the innermost first; empty for a task without a stack
}

type blockedTask struct {
	PID  uint32 `json:"pid"`
	TID  uint32 `json:"tid"`
	Name string `json:"name,omitempty"`
}

// blockedFrame is a function on a stack. Its source line and inlined functions belong to the call or, if it was interrupted, to
// the instruction there.
type blockedFrame struct {
	Function string               `json:"function"`
	Offset   uint64               `json:"offset"`
	Size     uint64               `json:"size"`
	Module   string               `json:"module,omitempty"`
	Inlined  []lookup.SourceFrame `json:"inlined,omitempty"`
	Source   lookup.SourceLine    `json:"source,omitzero"`
}

// group groups tasks by state and stack. It sorts by state, and then by the number of tasks.
func (b *blockedStacks) group(ctx context.Context, blocked []tasks.Task) (stacks []*blockedStack, err error) {
	byStack := make(map[string]*blockedStack)
	for _, t := range blocked {
		key := string(t.State) + fmt.Sprint(t.Stack)
		s := byStack[key]
		if s == nil {
			s = &blockedStack{State: string(t.State), Frames: []blockedFrame{}}
			of := lookup.NewStack(b.resolver)
			for _, f := range t.Stack {
				if f.Function == "" {
					of.Nameless()
					continue
				}
				frame, err := b.frame(ctx, of, f)
				if err != nil {
					return nil, err
				}
				s.Frames = append(s.Frames, frame)
			}
			byStack[key] = s
			stacks = append(stacks, s)
		}
		s.Tasks = append(s.Tasks, blockedTask{t.PID, t.TID, t.Name})
	}
	rank := func(s *blockedStack) int { return strings.Index(tasks.WaitStates, s.State) }
	slices.SortStableFunc(stacks, func(x, y *blockedStack) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(len(y.Tasks), len(x.Tasks)))
	})
	return stacks, nil
}

// frame adds the source line and the inlined functions to a frame, if there is the pack of the image that runs here.
func (b *blockedStacks) frame(ctx context.Context, of *lookup.Stack, f tasks.Frame) (blockedFrame, error) {
	frame := blockedFrame{Function: f.Function, Offset: f.Offset, Size: f.Size, Module: f.Module}
	if b.resolver.Packs == nil {
		return frame, nil
	}
	name := cmp.Or(f.Module, timeline.KernelName)
	image, err := b.resolver.Image(ctx, name)
	if err != nil {
		return frame, err
	}
	build := ""
	if image != nil {
		build = image.BuildID()
	}
	a, err := of.InPack(ctx, fmt.Sprintf("%s+%#x/%#x", f.Function, f.Offset, f.Size), name, build)
	if err == nil && a != nil {
		frame.Inlined, frame.Source = a.Inlined, a.SourceLine
	}
	return frame, err
}

// printStacks prints each stack below a line with its tasks.
func printStacks(out *printable.Printer, stacks []*blockedStack) error {
	if len(stacks) == 0 {
		return out.Printf("No task is in one of these states.\n")
	}
	return out.Buffered(func(out *printable.Printer) {
		for i, s := range stacks {
			if i > 0 {
				out.Printf("\n")
			}
			s.print(out)
		}
	})
}

func (s *blockedStack) print(out *printable.Printer) {
	out.Printf("%s in state %s: %s\n", plural.Of(len(s.Tasks), "task"), s.State, s.names())
	for _, f := range s.Frames {
		for _, inner := range f.Inlined {
			out.Printf("    %s%s (inlined)\n", printable.Bold.Of(inner.Function), inner)
		}
		module := ""
		if f.Module != "" {
			module = " [" + f.Module + "]"
		}
		out.Printf("    %s%s%s\n", printable.Bold.Of(f.Function), printable.Faint.Of(fmt.Sprintf("+%#x%s", f.Offset, module)), f.Source)
	}
}

// manyTasks is the maximum number of tasks listed for a stack.
const manyTasks = 10

// names returns the tasks as text.
func (s *blockedStack) names() string {
	var names []string
	for _, t := range s.Tasks[:min(len(s.Tasks), manyTasks)] {
		names = append(names, fmt.Sprintf("%s[%d]", cmp.Or(t.Name, "?"), t.TID))
	}
	if more := len(s.Tasks) - manyTasks; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
