package doctor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// rights are what this process may do, as far as files tell.
type rights struct {
	effective     uint64 // a bit for each capability
	known         bool   // effective was read
	userNamespace bool   // another one than the kernel's first, in which capabilities mean little

	knownNamespace bool // userNamespace was read
}

// right is the number of a capability (include/uapi/linux/capability.h).
type right int

const (
	ipcLock  right = 14
	sysAdmin right = 21
	syslog   right = 34
	perfmon  right = 38
	capBPF   right = 39
)

// String returns the name as in the manifest of a container.
func (c right) String() string {
	return map[right]string{ipcLock: "IPC_LOCK", sysAdmin: "SYS_ADMIN", syslog: "SYSLOG", perfmon: "PERFMON", capBPF: "BPF"}[c]
}

func (r rights) has(c right) bool {
	return !r.userNamespace && r.effective>>c&1 == 1
}

// readRights reads what the kernel tells of the process that reads.
func readRights(procfs string) (r rights) {
	status, err := os.ReadFile(filepath.Join(procfs, "self", "status"))
	if err == nil {
		for line := range strings.Lines(string(status)) {
			if value, ok := strings.CutPrefix(line, "CapEff:"); ok {
				r.effective, err = strconv.ParseUint(strings.TrimSpace(value), 16, 64)
				r.known = err == nil
			}
		}
	}
	// One line from 0 to 0 for all numbers is the first user namespace, or as good.
	users := readText(procfs, "self/uid_map")
	r.knownNamespace = users != ""
	r.userNamespace = users != "" && strings.Join(strings.Fields(users), " ") != "0 0 4294967295"
	return r
}

// readText returns what stands in a file, without white space around it; nothing if
// it cannot be read.
func readText(root, name string) string {
	text, _ := os.ReadFile(filepath.Join(root, name)) // what is missing says something
	return strings.TrimSpace(string(text))
}

// sysctl returns the value of a sysctl, and false if it cannot be read.
func (m *machine) sysctl(name string) (int, bool) {
	v, err := strconv.Atoi(readText(m.settings, filepath.Join("sys", strings.ReplaceAll(name, ".", "/"))))
	return v, err == nil
}
