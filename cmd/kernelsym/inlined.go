// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/btfinline"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/inlined"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packview"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/patterns"
)

func newInlined() *cobra.Command {
	var o inlined.Options
	var paths []string
	var output string
	cmd := &cobra.Command{
		Use:   "inlined FUNCTION...",
		Short: "Print where a function was inlined",
		Long: "Print the functions and addresses at which a function was inlined. FUNCTION is its name or a\n" +
			"pattern with *, ? and [...]. Rust names can be mangled or not.\n\n" +
			"With --pack, the answer comes from packs and includes the size of the code and the line of the\n" +
			"call. Code that the compiler split has several lines of output. Nothing of this machine is read.\n\n" +
			"Without --pack, the answer comes from the running kernel, which must be built with\n" +
			"CONFIG_DEBUG_INFO_BTF_INLINE (expected in Linux 7.4). If that is a module, the kernel loads it,\n" +
			"which takes 9.5 MB of its memory.\n\n" +
			"The exit status is 1 if a name is inlined nowhere, or something cannot be read.",
		Example: "  kernelsym inlined fdget_pos\n" +
			"  kernelsym inlined --pack /var/lib/kernelsym/packs 'rcu_read_*lock' --output json",
		RunE: func(cmd *cobra.Command, args []string) error {
			names, err := patterns.New(args...)
			if err != nil {
				return usage(cmd, err)
			}
			if o.Packs, err = packview.Open(paths); err != nil {
				return err
			}
			var failed []error
			o.Warn, o.Failed = func(err error) { warn(cmd, err) }, func(err error) { failed = append(failed, err) }
			places, err := inlined.Find(cmd.Context(), o, names.Match)
			switch {
			case errors.Is(err, btfinline.ErrNone):
				err = fmt.Errorf("%w; %w", err, errNoInlined)
			case err == nil && output == outputJSON:
				err = writeJSON(stdout(cmd), places...)
			case err == nil && len(places) > 0:
				err = inlined.Print(stdout(cmd), places)
			}
			if missing := names.Unmatched(); err == nil && len(missing) > 0 {
				err = fmt.Errorf("%w: %s", errNowhere, strings.Join(missing, ", "))
			}
			return errors.Join(append(failed, err)...)
		},
	}
	packFlag(cmd, &paths)
	machineFlags(cmd, &o.Procfs, &o.Sysfs)
	outputFlag(cmd, &output, objectPerLine)
	return cmd
}

// errNowhere is returned for names that match no inlined function.
var errNowhere = errors.New("inlined nowhere")

// errNoInlined explains what to do if the running kernel has no list of inlined functions.
var errNoInlined = errors.New("name packs with --pack, which `kernelsym pack` makes")
