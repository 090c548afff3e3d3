// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPrivilegesPage verifies that the page agrees with the measurements, and that everything was
// measured.
func TestPrivilegesPage(t *testing.T) {
	needRepository(t)
	all := readPrivileges(t)
	if *update {
		readMeasured(t, all)
		writePrivileges(t, all)
	}
	for _, s := range settings() {
		o, ok := all[s.String()]
		require.True(t, ok, s)
		for _, cell := range []string{o.Core, o.Modules, o.Before, o.Since} {
			assert.NotEmpty(t, cell, "%v: measure it, with `make privileges`", s)
		}
	}
	want, err := os.ReadFile(privilegesPage)
	require.NoError(t, err)
	assert.Equal(t, string(want), page(all), "make privileges")
}

const pageHead = `# What each privilege buys

The tables on this page are measured: the test TestPrivileges starts the processor's sources in a
process that has exactly the capabilities of a row, and checks which functions of the running kernel
get their names. BPF programs are loaded before the process starts (*BPF before*) and while it runs
(*BPF since*).

- *exact*: name and source lines. *name*: no source lines.
- *at once*: even programs that are unloaded right after they are loaded.

No other rights are needed. Profiles pass through even if rights are missing. The numbers in the last
column stand for the messages in the component's status and log, which are listed at the end.
[Troubleshooting](troubleshooting.md) has a remedy for each.
[Platforms](platforms/README.md) describes what hardened systems allow.

`

// page returns the page with everything that was measured.
func page(all map[string]outcome) string {
	var b strings.Builder
	b.WriteString(pageHead)
	var notes []string
	title := ""
	for _, s := range settings() {
		if heading := headings[s.Sysctls]; heading != title {
			title = heading
			fmt.Fprintf(&b, "## %s\n\n| user | capabilities | core kernel | modules | BPF before | BPF since | status |\n", title)
			b.WriteString("|---|---|---|---|---|---|---|\n")
		}
		o := all[s.String()]
		caps := strings.Join(s.Caps, ", ")
		if title == headings[openAll] {
			caps = "none; " + s.Sysctls
		} else if caps == "" {
			caps = "none"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", s.User, caps, o.Core, o.Modules, o.Before, o.Since, numbers(o, &notes))
		if next := slices.IndexFunc(settings(), func(n setting) bool { return n.String() == s.String() }) + 1; next == len(settings()) ||
			headings[settings()[next].Sysctls] != title {
			b.WriteString("\n")
		}
	}
	b.WriteString("## What the status says\n\n")
	for i, note := range notes {
		fmt.Fprintf(&b, "%d. %s\n", i+1, note)
	}
	return b.String()
}

var headings = map[string]string{
	usual:      "With `kernel.kptr_restrict` 0 or 1 and `kernel.perf_event_paranoid` 2",
	hidden:     "With `kernel.kptr_restrict` 2",
	closedPerf: "With `kernel.perf_event_paranoid` 3, in Debian's Linux 6.12",
	openPerf:   "Without capabilities, by sysctls alone",
	openHidden: "Without capabilities, by sysctls alone",
	openAll:    "Without capabilities, by sysctls alone",

	integrity:       "In a kernel that is locked down: `lockdown=integrity`",
	confidentiality: "In a kernel that is locked down: `lockdown=confidentiality`",
}

// numbers returns the numbers of the notes about an outcome's status, or "up" if all is well. It
// adds new notes.
func numbers(o outcome, notes *[]string) string {
	var list []string
	for _, source := range []string{"kallsyms", "bpf", "modules"} {
		status, ok := o.Status[source]
		if !ok {
			continue
		}
		note := fmt.Sprintf("`%s is %s`", source, strings.ReplaceAll(status, "\n", "`\n   `"))
		i := slices.Index(*notes, note)
		if i < 0 {
			i = len(*notes)
			*notes = append(*notes, note)
		}
		list = append(list, strconv.Itoa(i+1))
	}
	if len(list) == 0 {
		return "up"
	}
	return strings.Join(list, ", ")
}
