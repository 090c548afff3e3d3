// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/bundle"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/doctor"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/newfile"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
)

// statusError ends the command with an exit status. It prints nothing.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// errUsage is the exit status for a wrong command line (EX_USAGE of sysexits.h). The findings of
// doctor have other statuses.
const errUsage statusError = 64

func newDoctor() *cobra.Command {
	var procfs, sysfs, packs, output string
	var collect bundle.Options
	var file string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine: what works, what is lost, and what to change",
		Long: "Do what the processor \"kernelsym\" does, with the rights of this process, and report what works,\n" +
			"what is lost, and what to change. Run it as root, or as the collector's user in its container.\n\n" +
			"With --metrics, also watch a running collector for up to 25 s: do samples arrive, and does each\n" +
			"exporter send them?\n\n" +
			"With --bundle, also write what a bug report needs to a .tar.gz file: this report, versions,\n" +
			"settings, limits, and numbers of symbols. Kernel addresses and the host's names are removed.\n\n" +
			"The exit status is 0 if everything works, 1 if something is lost, 2 if kernel frames get no\n" +
			"names at all, 64 if the command line is wrong, and 130 after an interrupt.",
		Example: "  kernelsym doctor\n" +
			"  kernelsym doctor --packs /var/lib/kernelsym/packs\n" +
			"  kernelsym doctor --metrics http://localhost:8888/metrics\n" +
			"  kernelsym doctor --bundle bundle.tar.gz --metrics http://localhost:8888/metrics --log otelcol.log\n" +
			"  kernelsym doctor --procfs /host/proc --sysfs /host/sys --output json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" && collect.Log != "" {
				return usage(cmd, errors.New("--log needs --bundle"))
			}
			report := doctor.Run(cmd.Context(), doctor.Options{Procfs: procfs, Sysfs: sysfs, Packs: packs, Metrics: collect.Metrics})
			if cmd.Context().Err() != nil { // some checks are missing
				return context.Cause(cmd.Context())
			}
			if file != "-" {
				if err := write(&report, stdout(cmd), output); err != nil {
					return err
				}
			}
			if file != "" {
				collect.Version, collect.Packs, collect.Report = version, packs, &report
				if err := writeBundle(cmd, file, collect); err != nil {
					return err
				}
			}
			if code := report.Code(); code != 0 {
				cmd.SilenceErrors = true // the report has already said why
				return statusError(code)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&packs, "packs", "", "directory of packs: check which running builds have one")
	flags.StringVar(&file, "bundle", "", "write a .tar.gz file for a bug report, or - for standard output")
	flags.StringVar(&collect.Metrics, "metrics", "", "URL of the collector's metrics: check that it delivers, and include them in the bundle")
	flags.StringVar(&collect.Log, "log", "", "log file of the collector, whose end to include in the bundle")
	_ = cmd.MarkFlagDirname("packs")
	machineFlags(cmd, &procfs, &sysfs)
	outputFlag(cmd, &output)
	return cmd
}

// writeBundle writes a bundle to a file, which only its owner can read, or to standard output.
func writeBundle(cmd *cobra.Command, name string, o bundle.Options) error {
	var content bytes.Buffer
	if err := bundle.Write(cmd.Context(), &content, o); err != nil {
		return fmt.Errorf("--bundle: %w", err)
	}
	if name == "-" {
		_, err := stdout(cmd).Raw().Write(content.Bytes())
		return err
	}
	if err := newfile.Write(name, content.Bytes(), 0o600); err != nil { // as in a pod, which is read-only
		return fmt.Errorf("--bundle: %w: write it to standard output with --bundle -", err)
	}
	return stderr(cmd).Printf("Wrote %s. Read it before you send it: README.txt in it says what each file is.\n", name)
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
