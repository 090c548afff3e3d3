// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kernelsym/kernelsym/internal/procfs"
)

// rights are the privileges of this process, as far as files show them.
type rights struct {
	uid           string // effective user id
	effective     uint64 // the effective capabilities, one bit each
	known         bool   // effective was read
	userNamespace bool   // not the initial namespace, so the kernel ignores capabilities
	seccomp       string // the seccomp mode

	knownNamespace bool // userNamespace was read
}

// The modes of seccomp (proc_pid_status(5)).
const (
	seccompOff    = "0"
	seccompFilter = "2"
)

// right is the number of a capability (include/uapi/linux/capability.h).
type right int

const (
	ipcLock  right = 14
	sysAdmin right = 21
	syslog   right = 34
	perfmon  right = 38
)

// String returns the name of the capability in a container's manifest.
func (c right) String() string {
	return map[right]string{ipcLock: "IPC_LOCK", sysAdmin: "SYS_ADMIN", syslog: "SYSLOG", perfmon: "PERFMON"}[c]
}

func (r rights) has(c right) bool {
	return !r.userNamespace && r.effective>>c&1 == 1
}

// ordinary reports whether the user has none of the rights that a collector needs.
func (r rights) ordinary() bool {
	return r.known && r.uid != "" && r.uid != "0" && !r.userNamespace && !r.has(syslog) && !r.has(perfmon) && !r.has(sysAdmin)
}

// readRights reads the rights of this process.
func readRights(procfs string) (r rights) {
	status, err := os.ReadFile(filepath.Join(procfs, "self", "status"))
	if err == nil {
		for line := range strings.Lines(string(status)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			switch fields := strings.Fields(value); {
			case key == "Uid" && len(fields) > 1:
				r.uid = fields[1]
			case key == "Seccomp" && len(fields) > 0:
				r.seccomp = fields[0]
			case key == "CapEff" && len(fields) > 0:
				r.effective, err = strconv.ParseUint(fields[0], 16, 64)
				r.known = err == nil
			}
		}
	}
	// A single line that maps all IDs to themselves is the initial user namespace, or equivalent to
	// it.
	users := readText(procfs, "self/uid_map")
	r.knownNamespace = users != ""
	r.userNamespace = users != "" && strings.Join(strings.Fields(users), " ") != "0 0 4294967295"
	return r
}

// readText returns the text of a file, without white space around it. It is empty if the file
// cannot be read.
func readText(root, name string) string {
	text, _ := os.ReadFile(filepath.Join(root, name)) // the caller interprets an empty text
	return strings.TrimSpace(string(text))
}

// sysctl returns the value of a sysctl, and false if it cannot be read.
func (m *machine) sysctl(name string) (int, bool) {
	v, err := strconv.Atoi(readText(m.state.settings, filepath.Join("sys", strings.ReplaceAll(name, ".", "/"))))
	return v, err == nil
}

// lockedMemory returns, as text for people, how much memory this process may lock.
func (m *machine) lockedMemory() string {
	if limit := procfs.Limit(m.state.settings, "Max locked memory"); limit != nil {
		return limit[0] + " " + limit[2]
	}
	return "not known"
}

// userCheck names the finding that this is an ordinary user.
const userCheck = "user"

// checkUser tells ordinary users to become root, before anything else.
func checkUser(m *machine) []Finding {
	if !m.state.rights.ordinary() {
		return nil
	}
	return []Finding{{
		Check: userCheck, Level: Note, Remedy: []string{"sudo kernelsym doctor"},
		Found: "run it as root: user " + m.state.rights.uid + " has no capabilities and cannot tell what a collector with " +
			"privileges gets. What follows holds for this user only.",
	}}
}

// capabilitiesCheck names the finding that explains how to grant the capabilities that other
// findings require.
const capabilitiesCheck = "capabilities"

// checkCapabilities must run after the checks that require capabilities.
func checkCapabilities(m *machine) []Finding {
	f := Finding{Check: capabilitiesCheck, Level: Note}
	switch {
	case !m.state.rights.known:
		f.Found = "not known: " + m.state.settings + "/self/status cannot be read"
	case m.state.rights.userNamespace:
		f.Found = "they do not count in this user namespace"
	case len(m.state.wanted) > 0:
		all := m.allWanted()
		f.Found = "not effective: " + names(m.state.wanted, "CAP_", ", ")
		f.Remedy = []string{
			"in a container: securityContext: {capabilities: {add: [" + names(all, "", ", ") + "]}}",
			"in a systemd unit: CapabilityBoundingSet=" + names(all, "CAP_", " ") +
				" (for a user other than root, also AmbientCapabilities= with the same)",
		}
	default:
		f.Level, f.Found = OK, "all that are needed here are effective"
	}
	return []Finding{f}
}

// allWanted returns all capabilities that the processor needs here, including those that are effective: a manifest or a
// unit must name them all.
func (m *machine) allWanted() (all []right) {
	for _, c := range []right{syslog, perfmon, sysAdmin, ipcLock} {
		if slices.Contains(m.state.wanted, c) || c != ipcLock && m.state.rights.has(c) {
			all = append(all, c)
		}
	}
	return all
}

// names joins the names of capabilities.
func names(caps []right, prefix, separator string) string {
	all := make([]string, len(caps))
	for i, c := range caps {
		all[i] = prefix + c.String()
	}
	return strings.Join(all, separator)
}
