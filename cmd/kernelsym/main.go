// SPDX-License-Identifier: Apache-2.0

// Command kernelsym is the operator's tool. It shows live what the kernel does and what BPF
// programs cost, names kernel addresses, lists kernel code and watches it being loaded and
// unloaded, shows profiles that a collector wrote to a file, makes packs, and checks this machine.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt kills the process
	err := runCommand(ctx, newCommand(), os.Args[1:])
	var status statusError
	switch {
	case errors.As(err, &status):
		os.Exit(int(status)) //nolint:gocritic // stop only restores the signal
	case err != nil && ctx.Err() != nil:
		os.Exit(interrupted)
	case err != nil:
		os.Exit(1)
	}
}

// interrupted is the exit status after an interrupt. A program killed by the signal has the same.
const interrupted = 130

// version is the same as the version of the collector in builder-config.yaml.
const version = "0.1.0-dev"

// runCommand runs a command line and prints any error. It returns errUsage if the command line
// itself is wrong.
func runCommand(ctx context.Context, root *cobra.Command, args []string) error {
	root.SetArgs(args)
	root.SetOut(stdout(root))
	root.SetErr(stderr(root)) // errors have names of files and answers of servers
	addBuiltins(root, args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return nil
	}
	if _, _, unknown := root.Find(args); unknown != nil {
		return errUsage
	}
	return err
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return stdout(cmd).Printf("kernelsym version %s\n", version) // as --version
		},
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "kernelsym",
		Short: "Put names on kernel code",
		Long: "Put names on kernel code, as the OpenTelemetry Collector processor \"kernelsym\" does.\n\n" +
			"The commands check this machine, show where its kernel spends time, look up addresses, follow\n" +
			"modules and BPF programs as they are loaded and unloaded, and show profiles of a collector.",
		Version:      version,
		SilenceUsage: true,
	}
	root.AddCommand(newMan(root))
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usage(cmd, inWords(err)) })
	root.AddCommand(newDoctor(), newLookup(), newAnnotate(), newList(), newInlined(), newWatch(), newTop(), newStacks(), newView(), newPack(), newVersion())
	for _, cmd := range root.Commands() {
		if run := cmd.RunE; run != nil {
			cmd.RunE = func(cmd *cobra.Command, args []string) error { return asRoot(cmd, run(cmd, args)) }
		}
		cmd.Args = checkArguments
	}
	return root
}

// checkArguments rejects a number of arguments that is not the one in the usage line of a command: FILE is one, FILE... is at
// least one, and [FILE...] is any number.
func checkArguments(cmd *cobra.Command, args []string) error {
	wanted := strings.Fields(cmd.Use)[1:]
	switch {
	case len(args) > len(wanted) && !strings.Contains(cmd.Use, "..."):
		return usage(cmd, fmt.Errorf("%s takes %s: %q", cmd.Name(), cmp.Or(strings.Join(wanted, " "), "no arguments"), args[len(wanted)]))
	case len(wanted) > 0 && len(args) == 0 && !strings.HasPrefix(wanted[0], "["):
		return usage(cmd, errors.New("give a "+strings.TrimSuffix(wanted[0], "...")))
	}
	return nil
}
