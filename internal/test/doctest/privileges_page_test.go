// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"fmt"
	"os"
	"slices"
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

The test TestPrivileges measures these tables. It starts the processor's sources with the capabilities of
a row, and checks which functions of the running kernel get their names. *BPF before* are programs that are
loaded before the processor starts, *BPF since* those that are loaded while it runs. *Exact* means name and
source lines, *at once* even if the program is unloaded right away.

Rows are for root unless they say otherwise. In the first two tables, any other set of capabilities gives the same as
the last row whose capabilities it contains. CAP_BPF makes no difference anywhere, and no others are needed. Profiles
pass through in any case. [Troubleshooting](troubleshooting.md) has the message and the remedy for each source that is
down or degraded, and [Platforms](platforms/README.md) says what hardened systems allow.

`

// A row is an outcome with the smallest sets of capabilities that give it.
type row struct {
	alternatives []setting // none contains another
	outcome      outcome
}

// gives reports whether a setting contains the capabilities of a row.
func (r row) gives(s setting) bool {
	return slices.ContainsFunc(r.alternatives, func(a setting) bool {
		return (a.User == "root" || a.User == s.User) && (a.Sysctls == s.Sysctls || headings[a.Sysctls] != headings[openAll]) &&
			!slices.ContainsFunc(a.Caps, func(c string) bool { return !slices.Contains(s.Caps, c) })
	})
}

// rowsOf returns the rows of a table, from the measurements below its heading.
func rowsOf(heading string, all map[string]outcome) (rows []row) {
	for _, s := range settings() {
		if headings[s.Sysctls] != heading {
			continue
		}
		o := all[s.String()]
		alike := slices.IndexFunc(rows, func(r row) bool {
			return cells(r.outcome) == cells(o) && (r.alternatives[0].User == s.User || r.gives(s))
		})
		switch {
		case alike < 0:
			rows = append(rows, row{[]setting{s}, o})
		case !rows[alike].gives(s):
			rows[alike].alternatives = append(rows[alike].alternatives, s)
		}
	}
	return rows
}

// TestPrivilegesPageLeavesNothingOut verifies what the page says of sets of capabilities that it does not list.
func TestPrivilegesPageLeavesNothingOut(t *testing.T) {
	all := readPrivileges(t)
	for _, s := range settings() {
		assert.Equal(t, all[s.String()].Core, all[s.String()].Modules, s)
		rows := rowsOf(headings[s.Sysctls], all)
		slices.Reverse(rows)
		last := rows[slices.IndexFunc(rows, func(r row) bool { return r.gives(s) })]
		assert.Equal(t, cells(all[s.String()]), cells(last.outcome), s)
		for _, r := range rows {
			for _, a := range r.alternatives {
				assert.NotContains(t, a.Caps, "BPF")
			}
		}
	}
}

// page returns the page with everything that was measured.
func page(all map[string]outcome) string {
	var b strings.Builder
	b.WriteString(pageHead)
	var titles []string
	for _, s := range settings() {
		title := headings[s.Sysctls]
		if slices.Contains(titles, title) {
			continue
		}
		titles = append(titles, title)
		fmt.Fprintf(&b, "## %s\n\n| capabilities | core kernel, modules | BPF before | BPF since | status |\n", title)
		b.WriteString("|---|---|---|---|---|\n")
		for _, r := range rowsOf(title, all) {
			var names []string
			for _, a := range r.alternatives {
				names = append(names, label(a))
			}
			fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(names, "; or "), cells(r.outcome))
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// label says what the page calls a setting within its table.
func label(s setting) string {
	caps := strings.Join(s.Caps, ", ")
	switch {
	case headings[s.Sysctls] == headings[openAll]:
		return s.Sysctls
	case caps == "":
		return "none"
	case s.User != "root":
		return caps + ", but not root"
	}
	return caps
}

var headings = map[string]string{
	usual:      "With `kernel.kptr_restrict` 0 or 1 and `kernel.perf_event_paranoid` 2",
	hidden:     "With `kernel.kptr_restrict` 2",
	closedPerf: "With `kernel.perf_event_paranoid` 3, in Debian's Linux 6.12",
	hardened:   "With `net.core.bpf_jit_harden` 1 or 2, which hides trampolines from before the start",
	openPerf:   "Without capabilities, by sysctls alone",
	openHidden: "Without capabilities, by sysctls alone",
	openAll:    "Without capabilities, by sysctls alone",

	integrity:       "In a kernel that is locked down, as `integrity` or `confidentiality`",
	confidentiality: "In a kernel that is locked down, as `integrity` or `confidentiality`",
}

// cells returns the cells of a row that say what is named, and the state of each source that is not up.
func cells(o outcome) string {
	var states []string
	for _, state := range []string{"down", "degraded"} {
		var sources []string
		for _, source := range []string{"kallsyms", "modules", "bpf"} {
			if strings.HasPrefix(o.Status[source], state+":") {
				sources = append(sources, source)
			}
		}
		if len(sources) > 0 {
			states = append(states, strings.Join(sources, ", ")+" "+state)
		}
	}
	if len(states) == 0 {
		states = []string{"up"}
	}
	return strings.Join([]string{o.Core, o.Before, o.Since, strings.Join(states, "; ")}, " | ")
}
