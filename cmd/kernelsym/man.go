// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"

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
		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // man pages are for everyone
				return err
			}
			addSections(root)
			root.DisableAutoGenTag = true // it would contain the date of the build
			header := &doc.GenManHeader{Section: "1", Source: "kernelsym " + version, Manual: "kernelsym"}
			return doc.GenManTree(root, header, args[0])
		},
	}
}

// exitStatus is a section of all pages, in Markdown.
const exitStatus = `

# EXIT STATUS

0
: Everything was done.

1
: Something failed, a name was not found or, for doctor, something is lost.

2
: doctor only: the core kernel has no names.

64
: The command line is wrong. Nothing was done.

130
: It was interrupted before it had an answer. watch, view and top end by an interrupt, with status 0; top prints what it has
sampled.
`

// markdown escapes what Markdown would take for HTML or emphasis.
var markdown = strings.NewReplacer("<", `\<`, "_", `\_`, "*", `\*`)

// addSections makes Markdown of the descriptions of commands, and adds the sections that only their pages have.
func addSections(root *cobra.Command) {
	var commands strings.Builder
	for _, cmd := range root.Commands() {
		cmd.Long = markdown.Replace(cmd.Long) + exitStatus
		if !cmd.Hidden {
			fmt.Fprintf(&commands, "**%s**\n: %s\n\n", cmd.Name(), cmd.Short)
		}
	}
	root.Long += "\n\n# COMMANDS\n\n" + commands.String() + exitStatus
}
