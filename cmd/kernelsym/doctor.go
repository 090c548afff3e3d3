package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/doctor"
)

// statusError ends the command with a status, after everything was said.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// errUsage is for a command line that is wrong (EX_USAGE of sysexits.h), which
// is none of what doctor finds.
const errUsage statusError = 64

func newDoctor() *cobra.Command {
	var procfs, sysfs, packs, output string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine: what works, what is lost, and what to change",
		Long: "Check this machine as the processor \"kernelsym\" would use it, with the rights of this process:\n" +
			"what works, what is lost without what does not, and what to change.\n\n" +
			"The exit status is 0 if everything works, 1 if something is lost, 2 if kernel frames get no\n" +
			"names at all, and 64 if the command line is wrong.",
		Example: "  kernelsym doctor\n" +
			"  kernelsym doctor --packs /var/lib/kernelsym/packs\n" +
			"  kernelsym doctor --procfs /host/proc --sysfs /host/sys --output json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report := doctor.Run(cmd.Context(), procfs, sysfs, packs)
			if err := write(&report, cmd.OutOrStdout(), output); err != nil {
				return err
			}
			if code := report.Code(); code != 0 {
				cmd.SilenceErrors = true // the report says it
				return statusError(code)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&packs, "packs", "", "directory of packs, to check which running builds have one")
	_ = cmd.MarkFlagDirname("packs")
	machineFlags(cmd, &procfs, &sysfs)
	outputFlag(cmd, &output)
	return cmd
}

func write(report *doctor.Report, w io.Writer, output string) error {
	if output == outputJSON {
		return report.WriteJSON(w)
	}
	return report.WriteText(w, wantsColor(w))
}

// usage prints what is wrong with the command line.
func usage(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	cmd.PrintErrln("Error:", err)
	cmd.SilenceErrors = true
	return errUsage
}
