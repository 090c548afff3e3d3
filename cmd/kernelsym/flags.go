// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The values of --output.
const (
	outputText = "text"
	outputJSON = "json"
)

// outputFlag adds --output. Every command that prints answers has this flag.
func outputFlag(cmd *cobra.Command, output *string) {
	*output = outputText
	cmd.Flags().VarP((*outputValue)(output), "output", "o", "text, or json: JSON objects for programs")
	values := cobra.FixedCompletions([]string{outputText, outputJSON}, cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc("output", values) // it fails only if the flag does not exist
}

// outputValue is the value of --output.
type outputValue string

var _ pflag.Value = (*outputValue)(nil)

var errOutput = errors.New("it takes text or json")

// Set rejects anything but an output format.
func (o *outputValue) Set(s string) error {
	if s != outputText && s != outputJSON {
		return errOutput
	}
	*o = outputValue(s)
	return nil
}

func (o *outputValue) String() string { return string(*o) }

// Type returns the name of the value in the help text.
func (*outputValue) Type() string { return "format" }

// machineFlags adds the flags of the commands that read this machine.
func machineFlags(cmd *cobra.Command, procfs, sysfs *string) {
	*procfs, *sysfs = "/proc", "/sys"
	cmd.Flags().Var((*directoryValue)(procfs), "procfs", "path where the host's /proc is mounted")
	cmd.Flags().Var((*directoryValue)(sysfs), "sysfs", "path where the host's /sys is mounted")
	_, _ = cmd.MarkFlagDirname("procfs"), cmd.MarkFlagDirname("sysfs") // they fail only if the flags do not exist
}

// directoryValue is the value of a flag that takes an existing directory.
type directoryValue string

var errNoDirectory = errors.New("there is no such directory")

// Set rejects anything but an existing directory.
func (d *directoryValue) Set(s string) error {
	if info, err := os.Stat(s); err != nil || !info.IsDir() {
		return errNoDirectory
	}
	*d = directoryValue(s)
	return nil
}

func (d *directoryValue) String() string { return string(*d) }

// Type returns the name of the value in the help text.
func (*directoryValue) Type() string { return "directory" }

// packFlag adds --pack, the flag that names packs.
func packFlag(cmd *cobra.Command, paths *[]string) {
	cmd.Flags().StringArrayVar(paths, "pack", nil, packUsage)
	_ = cmd.MarkFlagFilename("pack", packExtension)
}

// writeJSON prints each value as a JSON object on a line of its own.
func writeJSON[T any](w io.Writer, values ...T) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // names of Rust functions have angle brackets
	for i := range values {
		if err := encoder.Encode(&values[i]); err != nil {
			return err
		}
	}
	return nil
}
