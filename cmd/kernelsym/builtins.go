// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// addBuiltins adds cobra's own commands, help and completion. By default these accept any
// arguments; addBuiltins makes them reject wrong ones.
func addBuiltins(root *cobra.Command, args []string) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = isCommand
		case "completion":
			cmd.Args = func(cmd *cobra.Command, args []string) error { return usage(cmd, cobra.NoArgs(cmd, args)) }
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
			for _, shell := range cmd.Commands() {
				shell.Args = checkArguments
			}
		}
	}
}

// isCommand rejects arguments that are not the path of a command.
func isCommand(cmd *cobra.Command, args []string) error {
	if _, rest, err := cmd.Root().Find(args); err != nil || len(rest) > 0 {
		return usage(cmd, fmt.Errorf("unknown command %q", strings.Join(args, " ")))
	}
	return nil
}
