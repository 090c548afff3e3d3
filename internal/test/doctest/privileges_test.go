// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	update = flag.Bool("update", false, "measure what the running kernel can, and write docs/privileges.md")
	merge  = flag.String("measured", "", "with -update, also use what was measured in a virtual machine: a file with its output")
)

const (
	privilegesData = "testdata/privileges.json"
	privilegesPage = root + "docs/privileges.md"
)

// A setting is how a process is started; it is a row of the table.
type setting struct {
	Sysctls string   // a key of sysctls
	User    string   // "root" or "another"
	Caps    []string // effective
}

func (s setting) String() string {
	return s.Sysctls + "; " + s.User + "; " + strings.Join(s.Caps, ",")
}

// outcome says which code gets names with a setting.
type outcome struct {
	Core, Modules, Before, Since string
	// Status is the state of each source that is not up, and why.
	Status map[string]string
	// Disturbed says that records were lost or the list of names was cut short, because others
	// loaded many programs or kept the CPUs busy.
	Disturbed bool `json:",omitempty"`
}

type measured struct {
	setting
	outcome
}

// The sysctls that matter: kernel.kptr_restrict, kernel.perf_event_paranoid and net.core.bpf_jit_harden.
const (
	usual      = "usual" // 0 or 1, and 2
	hidden     = "kptr_restrict is 2"
	openPerf   = "perf_event_paranoid is 0"
	openAll    = "kptr_restrict and perf_event_paranoid are 0"
	openHidden = "kptr_restrict is 0, perf_event_paranoid is 1"
	closedPerf = "perf_event_paranoid is 3"
	hardened   = "bpf_jit_harden is 1"
)

// The modes of the kernel's lockdown. They stand in place of sysctls, which then have their usual
// values.
const (
	integrity       = "lockdown=integrity"
	confidentiality = "lockdown=confidentiality"
)

// lockdown returns the mode of the kernel's lockdown that a setting needs.
func (s setting) lockdown() string {
	if mode, ok := strings.CutPrefix(s.Sysctls, "lockdown="); ok {
		return mode
	}
	return "none"
}

// isMeasuredElsewhere reports whether only the other kernel of `make test-vm` measures a setting,
// because it is the same in each kernel, and measuring all settings in both takes minutes more.
func (s setting) isMeasuredElsewhere(isOlder bool) bool {
	if isOlder {
		return s.Sysctls == usual && slices.Contains(s.Caps, "BPF") // CAP_BPF makes no difference
	}
	return s.Sysctls == hidden && (len(s.Caps) == 2 || len(s.Caps) == 3)
}

// settings returns all rows of the table, in order.
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
	for _, caps := range [][]string{
		nil, {"PERFMON"}, {"SYSLOG", "PERFMON"}, {"SYSLOG", "PERFMON", "BPF"}, {"SYSLOG", "SYS_ADMIN"}, {"SYSLOG", "PERFMON", "SYS_ADMIN"},
	} {
		all = append(all, setting{Sysctls: closedPerf, User: "root", Caps: caps})
	}
	for _, caps := range [][]string{{"SYSLOG", "PERFMON"}, {"SYSLOG", "SYS_ADMIN"}} {
		all = append(all, setting{Sysctls: hardened, User: "root", Caps: caps})
	}
	for _, sysctls := range []string{openPerf, openHidden, openAll} {
		all = append(all, setting{Sysctls: sysctls, User: "root"})
	}
	for _, mode := range []string{integrity, confidentiality} {
		for n := range 4 {
			caps := []string{"SYSLOG", "PERFMON", "SYS_ADMIN"}
			all = append(all, setting{Sysctls: mode, User: "root", Caps: caps[:n]})
		}
	}
	return all
}

// readPrivileges returns the measurements on all kernels, by setting.
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

// measuredMark precedes what TestPrivileges prints about a setting.
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
