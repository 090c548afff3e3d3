// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/doctor"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
)

// statusError ends the command with an exit status. It prints nothing.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// errUsage is the exit status for a wrong command line (EX_USAGE of sysexits.h). The findings of
// doctor have other statuses.
const errUsage statusError = 64

func newDoctor() *cobra.Command {
	o := doctor.Options{Version: version}
	var output string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine: what works, what is lost, and what to change",
		Long: "Do what the processor \"kernelsym\" does, with the rights of this process, and report what works,\n" +
			"what is lost, and what to change. Run it as root, or as the collector's user in its container.\n\n" +
			"With --locate, do as the processor does with locate: true: where the kernel hides the addresses of its\n" +
			"symbols, find out with its pack where it is. The report has no address.\n\n" +
			"With --metrics, also watch a running collector for up to 25 s: do samples arrive, and does each\n" +
			"exporter send them?\n\n" +
			"JSON also has what a bug report needs: versions, settings, limits, numbers of symbols and, with\n" +
			"--metrics, the metrics of kernelsym. It has neither kernel addresses nor the host's names.\n\n" +
			"The exit status is 0 if everything works, 1 if something is lost, 2 if the core kernel\n" +
			"has no names, 64 if the command line is wrong, and 130 after an interrupt.",
		Example: "  kernelsym doctor\n" +
			"  kernelsym doctor --packs /var/lib/kernelsym/packs\n" +
			"  kernelsym doctor --locate --packs /var/lib/kernelsym/packs\n" +
			"  kernelsym doctor --metrics http://localhost:8888/metrics\n" +
			"  kernelsym doctor --output json --metrics http://localhost:8888/metrics > doctor.json\n" +
			"  kernelsym doctor --procfs /host/proc --sysfs /host/sys --output json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Locate && o.Packs == "" {
				return usage(cmd, errors.New("--locate needs --packs"))
			}
			report := doctor.Run(cmd.Context(), o)
			if cmd.Context().Err() != nil { // some checks are missing
				return context.Cause(cmd.Context())
			}
			if err := write(&report, stdout(cmd), output); err != nil {
				return err
			}
			if code := report.Code(); code != 0 {
				cmd.SilenceErrors = true // the report has already said why
				return statusError(code)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Packs, "packs", "", "directory of packs: check which running builds have one")
	flags.BoolVar(&o.Locate, "locate", false, "locate a kernel that hides its symbols, with its pack: needs --packs")
	flags.StringVar(&o.Metrics, "metrics", "", "URL of the collector's metrics: check that it delivers")
	_ = cmd.MarkFlagDirname("packs")
	machineFlags(cmd, &o.Procfs, &o.Sysfs)
	outputFlag(cmd, &output, oneObject)
	return cmd
}

func write(report *doctor.Report, out *printable.Printer, output string) error {
	if output == outputJSON {
		return report.WriteJSON(out)
	}
	return report.WriteText(out, columnsOf(out))
}

// usage prints a command-line error and returns errUsage. It does nothing if err is nil.
func usage(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	cmd.PrintErrln("Error:", err)
	cmd.SilenceErrors = true
	return errUsage
}
