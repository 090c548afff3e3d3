// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// rights are what this process may do, as far as files tell.
type rights struct {
	uid           string // effective
	effective     uint64 // a bit for each capability
	known         bool   // effective was read
	userNamespace bool   // not the initial one, so that the kernel ignores capabilities
	seccomp       string // the mode

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

// String returns the name as in the manifest of a container.
func (c right) String() string {
	return map[right]string{ipcLock: "IPC_LOCK", sysAdmin: "SYS_ADMIN", syslog: "SYSLOG", perfmon: "PERFMON"}[c]
}

func (r rights) has(c right) bool {
	return !r.userNamespace && r.effective>>c&1 == 1
}

// ordinary reports whether this is a user without any right that a collector needs.
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
	// One line that maps all IDs to themselves is the initial user namespace, or as good.
	users := readText(procfs, "self/uid_map")
	r.knownNamespace = users != ""
	r.userNamespace = users != "" && strings.Join(strings.Fields(users), " ") != "0 0 4294967295"
	return r
}

// readText returns the text of a file, without white space around it, or nothing if it cannot be
// read.
func readText(root, name string) string {
	text, _ := os.ReadFile(filepath.Join(root, name)) // what is missing says something
	return strings.TrimSpace(string(text))
}

// sysctl returns the value of a sysctl, and false if it cannot be read.
func (m *machine) sysctl(name string) (int, bool) {
	v, err := strconv.Atoi(readText(m.settings, filepath.Join("sys", strings.ReplaceAll(name, ".", "/"))))
	return v, err == nil
}

// lockedMemory returns how much memory this process may lock, for people.
func (m *machine) lockedMemory() string {
	for line := range strings.Lines(readText(m.settings, "self/limits")) {
		if value, ok := strings.CutPrefix(line, "Max locked memory"); ok {
			if fields := strings.Fields(value); len(fields) == 3 {
				return strings.TrimSpace(fields[0] + " " + fields[2])
			}
		}
	}
	return "not known"
}

// userCheck is the finding that this is an ordinary user.
const userCheck = "user"

// checkUser tells ordinary users to become root, before anything else.
func checkUser(m *machine) []Finding {
	if !m.rights.ordinary() {
		return nil
	}
	return []Finding{{
		Check: userCheck, Level: Note, Remedy: []string{"sudo kernelsym doctor"},
		Found: "run it as root: user " + m.rights.uid + " has no capabilities and cannot tell what a collector with " +
			"privileges gets. What follows holds for this user only.",
	}}
}

// capabilitiesCheck is the finding that says how to grant what other findings ask for.
const capabilitiesCheck = "capabilities"

// checkCapabilities comes after the checks that ask for capabilities.
func checkCapabilities(m *machine) []Finding {
	f := Finding{Check: capabilitiesCheck, Level: Note}
	switch {
	case !m.rights.known:
		f.Found = "not known: " + m.settings + "/self/status cannot be read"
	case m.rights.userNamespace:
		f.Found = "they do not count in this user namespace"
	case len(m.wanted) > 0:
		f.Found = "not effective: " + names(m.wanted, "CAP_", ", ")
		f.Remedy = []string{
			"in a container: securityContext: {capabilities: {add: [" + names(m.wanted, "", ", ") + "]}}",
			"in a systemd unit: CapabilityBoundingSet=" + names(m.wanted, "CAP_", " ") +
				" (for a user other than root, also AmbientCapabilities= with the same)",
		}
	default:
		f.Level, f.Found = OK, "all that are needed here are effective"
	}
	return []Finding{f}
}

// names joins the names of capabilities.
func names(caps []right, prefix, separator string) string {
	all := make([]string, len(caps))
	for i, c := range caps {
		all[i] = prefix + c.String()
	}
	return strings.Join(all, separator)
}
