// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/lookup"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packview"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/running"
	"github.com/kernelsym/kernelsym/internal/symbolize"
)

func newLookup() *cobra.Command {
	var flags resolverFlags
	var output string
	cmd := &cobra.Command{
		Use:   "lookup [ADDRESS|RANGE|NAME...]",
		Short: "Print the function, offset, module and build id of kernel addresses",
		Long: "Print what is at an address of the kernel, or where a function is. Arguments are:\n\n" +
			"  ffffffff81248080             an address, in hexadecimal digits\n" +
			"  ffffffff81248000-ffffffff81249000, ffffffff81248000+0x1000\n" +
			"                               a range: every function with code in it\n" +
			"  vmlinux+0x248080, nf_tables+0x1c\n" +
			"                               an offset in an image, given by its name or build id\n" +
			"  vfs_read, 'tcp_*_rcv'        a function, or a pattern with *, ? and [...]\n" +
			"  vfs_read+0x12/0x1a0, 'nft_do_chain+0x4/0x80 [nf_tables]'\n" +
			"                               an offset in a function, as the kernel prints it\n\n" +
			"Without arguments, or for the argument -, they are read from standard input, separated by white\n" +
			"space; so it takes /proc/PID/stack. An address without a function gets a question mark, and so\n" +
			"does an offset in a function if several functions have the name and, where it is given, the size.\n" +
			"A function is not found if its extent is not certain.\n\n" +
			"Relative addresses in profiles that kernelsym wrote need no --caller: they are those of the calls.\n\n" +
			"With --pack, the pack of an image adds the functions that were inlined at the address, the\n" +
			"innermost first, and source lines. Names and relative addresses are then looked up in the packs\n" +
			"alone, so they can be those of another machine, and nothing of this one is read. With --text,\n" +
			"absolute addresses are looked up in the packs, too. They must be addresses of the core kernel.\n\n" +
			"With --locate, absolute addresses of the core kernel have names even if the kernel hides its symbols.\n" +
			"Functions in a range then have relative addresses.\n\n" +
			"The exit status is 1 if an argument cannot be read, or no function has the name.",
		Example: "  kernelsym lookup ffffffff81248080 0xffffffff813c59a6\n" +
			"  kernelsym lookup vfs_read 'bpf_prog_*' --output json\n" +
			"  sudo cat /proc/1/stack | kernelsym lookup --caller\n" +
			"  kernelsym lookup --pack /var/lib/kernelsym/packs vmlinux+0x248080",
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := flags.resolver(cmd)
			if err != nil {
				return err
			}
			var failed []error
			in := func() io.Reader { return stdin(cmd, "addresses, offsets and names of functions") }
			err = r.Run(cmd.Context(), args, in, func(answers []*lookup.Answer, err error) error {
				if err != nil {
					cmd.PrintErrln("Error:", err)
					failed = append(failed, err)
					return nil
				}
				return printAnswers(stdout(cmd), answers, output)
			})
			if err != nil {
				return err
			}
			cmd.SilenceErrors = true // each error was already printed
			return errors.Join(failed...)
		},
		ValidArgsFunction: func(_ *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			return lookup.Complete(flags.procfs, toComplete), cobra.ShellCompDirectiveNoFileComp
		},
	}
	flags.add(cmd)
	outputFlag(cmd, &output, objectPerLine)
	return cmd
}

// resolverFlags are the flags that configure a resolver.
type resolverFlags struct {
	procfs, sysfs, text string
	packs               []string
	caller, locate      bool
}

func (f *resolverFlags) add(cmd *cobra.Command) {
	machineFlags(cmd, &f.procfs, &f.sysfs)
	packFlag(cmd, &f.packs)
	locateFlag(cmd, &f.locate)
	cmd.Flags().BoolVar(&f.caller, "caller", false, "addresses are return addresses: name the function of the call before them")
	cmd.Flags().StringVar(&f.text, "text", "", "address of _text on the machine that absolute addresses are of; needs the pack of its core kernel")
}

// readText is a command that prints the address of _text. Without CAP_SYSLOG, the kernel shows
// zeros.
const readText = "grep ' _text$' /proc/kallsyms"

// resolver returns the resolver that the flags describe.
func (f *resolverFlags) resolver(cmd *cobra.Command) (*lookup.Resolver, error) {
	r := &lookup.Resolver{
		Kernel: &running.Kernel{Procfs: f.procfs, Sysfs: f.sysfs, Warn: warnOnce(cmd)},
		Caller: f.caller,
	}
	var err error
	if cmd.Flags().Changed("text") {
		if r.Text, err = f.parseText(); err != nil {
			return nil, usage(cmd, err)
		}
	}
	if err = checkLocate(f.locate, f.packs, r.Text != 0); err != nil {
		return nil, usage(cmd, err)
	}
	if r.Packs, err = packview.Open(f.packs); err == nil && f.locate {
		r.Kernel.Packs = r.Packs
	}
	return r, err
}

// parseText validates --text.
func (f *resolverFlags) parseText() (uint64, error) {
	text, err := lookup.ParseAddress(f.text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("--text is %q: it takes a hexadecimal address", f.text)
	case !symbolize.InKernelHalf(text):
		return 0, fmt.Errorf("--text is %q, which is no kernel address: read it as root on that machine: %s", f.text, readText)
	case len(f.packs) == 0:
		return 0, errors.New("--text needs --pack, with the pack of that machine's core kernel")
	}
	return text, nil
}

func printAnswers(out *printable.Printer, answers []*lookup.Answer, output string) error {
	if output == outputJSON {
		return writeJSON(out, answers...)
	}
	return out.Buffered(func(out *printable.Printer) {
		for _, a := range answers {
			a.Print(out)
		}
	})
}
