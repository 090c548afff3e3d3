// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan returns the command that writes the man pages of root and its commands. It is hidden
// because only packagers need it.
func newMan(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIRECTORY",
		Short: "Write the man pages to a directory",
		Long: "Write the man pages to a directory, which is created if necessary.\n\n" +
			"Their date is SOURCE_DATE_EPOCH, in seconds since 1970, or today if that is not set.",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // man pages are for everyone
				return err
			}
			root.DisableAutoGenTag = true // it would contain the date of the build
			header := &doc.GenManHeader{Section: "1", Source: "kernelsym " + version, Manual: "kernelsym"}
			return doc.GenManTree(root, header, args[0])
		},
	}
}
