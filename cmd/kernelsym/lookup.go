// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
)

// lookup answers queries, one after the other.
type lookup struct {
	resolver
	output    string
	functions *functions // of the running kernel; nil until a name is asked for
	out       *printable.Printer
	wrong     func(error) // prints the error of a query
	failed    []error
}

func newLookup() *cobra.Command {
	var l lookup
	var flags resolverFlags
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
			"The exit status is 1 if an argument cannot be read, or no function has the name.",
		Example: "  kernelsym lookup ffffffff81248080 0xffffffff813c59a6\n" +
			"  kernelsym lookup vfs_read 'bpf_prog_*' --output json\n" +
			"  sudo cat /proc/1/stack | kernelsym lookup --caller\n" +
			"  kernelsym lookup --pack /var/lib/kernelsym/packs vmlinux+0x248080",
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if l.resolver, err = flags.resolver(cmd); err != nil {
				return err
			}
			l.out = stdout(cmd)
			l.wrong = func(err error) { cmd.PrintErrln("Error:", err) }
			in := func() io.Reader { return stdin(cmd, "addresses, offsets and names of functions") }
			if err := l.run(cmd.Context(), args, in); err != nil {
				return err
			}
			cmd.SilenceErrors = true // each error was already printed
			return errors.Join(l.failed...)
		},
		ValidArgsFunction: func(_ *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			return completeFunctions(flags.procfs, toComplete), cobra.ShellCompDirectiveNoFileComp
		},
	}
	flags.add(cmd)
	outputFlag(cmd, &l.output)
	return cmd
}

// resolverFlags are the flags that configure a resolver.
type resolverFlags struct {
	procfs, sysfs, text string
	packs               []string
	caller              bool
}

func (f *resolverFlags) add(cmd *cobra.Command) {
	machineFlags(cmd, &f.procfs, &f.sysfs)
	packFlag(cmd, &f.packs)
	cmd.Flags().BoolVar(&f.caller, "caller", false, "addresses are return addresses: name the function of the call before them")
	cmd.Flags().StringVar(&f.text, "text", "", "address of _text on the machine that absolute addresses are of; needs the pack of its core kernel")
}

// readText is a command that prints the address of _text. Without CAP_SYSLOG, the kernel shows
// zeros.
const readText = "grep ' _text$' /proc/kallsyms"

// resolver returns the resolver that the flags describe.
func (f *resolverFlags) resolver(cmd *cobra.Command) (resolver, error) {
	r := resolver{caller: f.caller, running: running{
		procfs: f.procfs, sysfs: f.sysfs, warn: func(err error) { warn(cmd, err) },
	}}
	var err error
	if cmd.Flags().Changed("text") {
		if r.text, err = parseAddress(f.text); err != nil || len(f.packs) == 0 {
			return r, usage(cmd, fmt.Errorf("--text is %q: it takes a hexadecimal address, and needs --pack", f.text))
		}
		if r.text>>63 == 0 {
			return r, usage(cmd, fmt.Errorf("--text is %q, which is no kernel address: read it as root on that machine: %s", f.text, readText))
		}
	}
	r.packs, err = openPacks(f.packs)
	return r, err
}

// run answers the arguments or, if there are none, the queries on standard input. It returns only
// an error that prevents all further answers.
func (l *lookup) run(ctx context.Context, args []string, stdin func() io.Reader) error {
	if len(args) == 0 {
		args = []string{"-"}
	}
	var words []string
	for _, arg := range args {
		if arg != "-" {
			words = append(words, wordsOf(arg)...)
			continue
		}
		if err := l.answerAll(ctx, words); err != nil {
			return err
		}
		words = nil
		lines := bufio.NewScanner(stdin())
		lines.Buffer(nil, maxLine)
		for lines.Scan() {
			if err := l.answerAll(ctx, strings.Fields(lines.Text())); err != nil {
				return err
			}
		}
		if err := lines.Err(); err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
	}
	return l.answerAll(ctx, words)
}

// answerAll answers the queries in words.
func (l *lookup) answerAll(ctx context.Context, words []string) error {
	return parseQueries(words, func(q query, err error) error {
		var answers []*answer
		if err == nil {
			answers, err = l.answer(ctx, &q)
		}
		if err == nil {
			return l.print(answers)
		}
		if l.running.failed != nil || ctx.Err() != nil {
			return err
		}
		l.wrong(err)
		l.failed = append(l.failed, err)
		return nil
	})
}

func (l *lookup) print(answers []*answer) error {
	if l.output == outputJSON {
		return writeJSON(l.out, answers...)
	}
	return l.out.Buffered(func(out *printable.Printer) {
		for _, a := range answers {
			a.print(out)
		}
	})
}
