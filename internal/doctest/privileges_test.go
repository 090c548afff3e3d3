package doctest

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
)

var (
	update = flag.Bool("update", false, "write docs/privileges.md, and what the running kernel can measure of it")
	merge  = flag.String("measured", "", "with -update, also take what was measured in a virtual machine, from what it printed")
)

const (
	privilegesData = "testdata/privileges.json"
	privilegesPage = root + "docs/privileges.md"
)

// A setting is what a process is started with, a row of the table.
type setting struct {
	Sysctls string   // a key of sysctls
	User    string   // "root" or "another"
	Caps    []string // effective
}

func (s setting) String() string {
	return s.Sysctls + "; " + s.User + "; " + strings.Join(s.Caps, ",")
}

// outcome is what is named with a setting.
type outcome struct {
	Core, Modules, Before, Since string
	// Status is the state of each source that is not up, and why.
	Status map[string]string
	// Disturbed says that records were lost, as others loaded many programs.
	Disturbed bool `json:",omitempty"`
}

type measured struct {
	setting
	outcome
}

// The sysctls that matter: kernel.kptr_restrict and kernel.perf_event_paranoid.
const (
	usual      = "usual" // 0 or 1, and 2
	hidden     = "kptr_restrict is 2"
	openPerf   = "perf_event_paranoid is 0"
	openAll    = "kptr_restrict and perf_event_paranoid are 0"
	openHidden = "kptr_restrict is 0, perf_event_paranoid is 1"
)

// settings returns all rows of the table, in their order.
func settings() (all []setting) {
	names := []string{"SYSLOG", "PERFMON", "BPF", "SYS_ADMIN"}
	for _, sysctls := range []string{usual, hidden} {
		var of []setting
		for bits := range 1 << len(names) {
			s := setting{Sysctls: sysctls, User: "root"}
			for i, name := range names {
				if bits>>i&1 == 1 {
					s.Caps = append(s.Caps, name)
				}
			}
			of = append(of, s)
		}
		slices.SortStableFunc(of, func(a, b setting) int { return len(a.Caps) - len(b.Caps) })
		all = append(all, of...)
		if sysctls == usual {
			all = append(all,
				setting{Sysctls: usual, User: "another"},
				setting{Sysctls: usual, User: "another", Caps: []string{"SYSLOG", "PERFMON", "SYS_ADMIN"}})
		}
	}
	for _, sysctls := range []string{openPerf, openHidden, openAll} {
		all = append(all, setting{Sysctls: sysctls, User: "root"})
	}
	return all
}

// readPrivileges returns what was measured on all kernels, by setting.
func readPrivileges(t *testing.T) map[string]outcome {
	t.Helper()
	data, err := os.ReadFile(privilegesData)
	require.NoError(t, err)
	var list []measured
	require.NoError(t, json.Unmarshal(data, &list))
	all := make(map[string]outcome)
	for _, m := range list {
		all[m.String()] = m.outcome
	}
	return all
}

// measuredMark stands before what TestPrivileges prints of a setting.
const measuredMark = "measured: "

// readMeasured adds what a virtual machine has printed.
func readMeasured(t *testing.T, all map[string]outcome) {
	t.Helper()
	if *merge == "" {
		return
	}
	log, err := os.ReadFile(*merge)
	require.NoError(t, err)
	n := 0
	for line := range strings.Lines(string(log)) {
		_, text, ok := strings.Cut(line, measuredMark)
		if !ok {
			continue
		}
		var m measured
		require.NoError(t, json.Unmarshal([]byte(text), &m), line)
		all[m.String()] = m.outcome
		n++
	}
	require.NotZero(t, n, "nothing was measured")
}

// writePrivileges writes what was measured, and the page.
func writePrivileges(t *testing.T, all map[string]outcome) {
	t.Helper()
	data, err := json.MarshalIndent(listed(all), "", " ")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(privilegesData, append(data, '\n'), 0o644))
	require.NoError(t, os.WriteFile(privilegesPage, []byte(page(all)), 0o644))
}

func listed(all map[string]outcome) (list []measured) {
	for _, s := range settings() {
		list = append(list, measured{s, all[s.String()]})
	}
	return list
}

// TestPrivilegesPage verifies that the page is made of what was measured, and that
// all of it was.
func TestPrivilegesPage(t *testing.T) {
	if kerneltest.InVM() {
		t.Skip("the page is not in the virtual machine")
	}
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

This page is generated from what the test TestPrivileges measured: it starts the
sources of the processor in a process that has exactly the capabilities of a row, and
looks which functions of the running kernel get their names. Those of the core kernel
and of modules are there or not; of BPF programs, which are loaded before the process
starts and while it runs, more or less is known.

- *exact*: name and source lines. *name*: no source lines.
- *at once*: also programs that are unloaded again at once. *within a second*: only those
  that are there when programs are listed, every 250 ms.

Nothing else but these rights is needed, and whatever is missing, profiles flow. The
numbers stand for what the component's status and its log say, listed at the end;
[troubleshooting](troubleshooting.md) says what to do about each.

`

// page returns the table of what was measured.
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
	openPerf:   "Without capabilities, by sysctls alone",
	openHidden: "Without capabilities, by sysctls alone",
	openAll:    "Without capabilities, by sysctls alone",
}

// numbers returns the numbers of the notes that say what an outcome's status does,
// "up" if all is well. It adds notes that are new.
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
