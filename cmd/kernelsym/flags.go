// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"regexp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// The values of --output.
const (
	outputText = "text"
	outputJSON = "json"
)

// What commands print as JSON.
const (
	objectPerLine = "one object per line"
	oneObject     = "one object"
)

// outputFlag adds --output. Every command that prints answers has this flag. json is what the command prints as JSON.
func outputFlag(cmd *cobra.Command, output *string, json string) {
	*output = outputText
	cmd.Flags().VarP((*outputValue)(output), "output", "o", "text, or json: "+json+", for scripts")
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

// parseErrors are the errors of the standard library about the value of a flag, and what to say instead.
var parseErrors = []struct {
	text *regexp.Regexp
	say  string
}{
	{regexp.MustCompile(`time: (missing unit in|invalid|unknown unit .* in) duration ".*"$`), "it takes a time with a unit, such as 10s"},
	{regexp.MustCompile(`strconv\.Parse(Int|Uint): parsing ".*": (invalid syntax|value out of range)$`), "it takes a whole number; a flag that takes a list also takes several, as in 12,34"},
	{regexp.MustCompile(`strconv\.ParseFloat: parsing ".*": (invalid syntax|value out of range)$`), "it takes a number, such as 2 or 0.5"},
	{regexp.MustCompile(`strconv\.ParseBool: parsing ".*": invalid syntax$`), "it takes true or false"},
}

// inWords returns the error of a flag in words of this command line.
func inWords(err error) error {
	for _, e := range parseErrors {
		if text := e.text.ReplaceAllLiteralString(err.Error(), e.say); text != err.Error() {
			return errors.New(text)
		}
	}
	return err
}

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

// packUsage describes the flag --pack, and packExtension is the extension of pack files.
const (
	packUsage     = "pack, or directory of packs named BUILD_ID" + pack.Ext + " (repeatable)"
	packExtension = "kspack"
)

// packFlag adds --pack, the flag that names packs.
func packFlag(cmd *cobra.Command, paths *[]string) {
	cmd.Flags().StringArrayVar(paths, "pack", nil, packUsage)
	_ = cmd.MarkFlagFilename("pack", packExtension)
}

// locateFlag adds --locate, the flag that has the kernel located.
func locateFlag(cmd *cobra.Command, locate *bool) {
	cmd.Flags().BoolVar(locate, "locate", false,
		"where the kernel hides its symbols, find out where it is, and name it by its pack; needs --pack and CAP_PERFMON")
}

// checkLocate validates --locate. hasText reports whether addresses are of another machine.
func checkLocate(locate bool, packs []string, hasText bool) error {
	switch {
	case locate && len(packs) == 0:
		return errors.New("--locate needs --pack, with the pack of this kernel")
	case locate && hasText:
		return errors.New("--locate is about this machine: it excludes --text")
	}
	return nil
}

// writeJSON prints each value as a JSON object on a line of its own.
func writeJSON[T any](out *printable.Printer, values ...T) error {
	for i := range values {
		if err := out.JSON(&values[i], ""); err != nil {
			return err
		}
	}
	return nil
}
