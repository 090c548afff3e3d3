// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/watch"
)

func newWatch() *cobra.Command {
	var o watch.Options
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.JSON, o.Out, o.Errs = output == outputJSON, stdout(cmd), stderr(cmd)
			o.Warn = func(err error) { warn(cmd, err) }
			return watch.Run(cmd.Context(), o)
		},
	}
	machineFlags(cmd, &o.Procfs, &o.Sysfs)
	outputFlag(cmd, &output, objectPerLine)
	return cmd
}
