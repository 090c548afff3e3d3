// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/kernelsym/kernelsym/internal/buildid"
)

// roots are where /proc and /sys are mounted, and the architecture.
type roots struct {
	procfs, sysfs string
	arch          string // as GOARCH
}

// list returns the modules in the kernel's list. A kernel that was built without modules
// has no such file. If the kernel hides all addresses, it returns
// kallsyms.ErrRestricted.
func (r *roots) list() ([]listed, error) {
	f, err := os.Open(filepath.Join(r.procfs, "modules"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := parseList(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	if len(list) > 0 && !slices.ContainsFunc(list, func(l listed) bool { return l.addr != 0 }) {
		// They are hidden, or all modules have only data.
		return list, r.parse(newParser(nil, nil))
	}
	return list, nil
}

// parse reads the symbols.
func (r *roots) parse(p *parser) error {
	f, err := os.Open(filepath.Join(r.procfs, "kallsyms"))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := p.parse(f); err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	return nil
}

// endRule returns the rule for where modules of the running kernel end.
func (r *roots) endRule() endRule {
	release, err := os.ReadFile(filepath.Join(r.procfs, "sys/kernel/osrelease"))
	if err != nil { // not all of the host's /proc is there: it is the same kernel
		release, _ = os.ReadFile("/proc/sys/kernel/osrelease")
	}
	return endRuleOf(r.arch, string(release))
}

// isLoaded reports whether a module is still there.
func (r *roots) isLoaded(is listed) bool {
	list, err := r.list()
	return err == nil && slices.ContainsFunc(list, func(l listed) bool { return l.live && l.name == is.name })
}

// dir returns the directory of a module.
func (r *roots) dir(module string) string { return r.sysfs + "/module/" + module }

// readBuildID returns a module's build id, empty if it has none.
func (r *roots) readBuildID(module string) (string, error) {
	name := r.dir(module) + "/notes/.note.gnu.build-id"
	notes, err := read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	id, err := buildid.Parse(bytes.NewReader(notes))
	if err != nil && !errors.Is(err, buildid.ErrNotFound) {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return id, nil
}

// readCoreSize returns a module's coresize, or 0. The size in /proc/modules is larger
// until what was only there to initialize the module has been freed.
func (r *roots) readCoreSize(module string) uint64 {
	text, _ := read(r.dir(module) + "/coresize")
	size, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return size
}

// readAddr reads a file that holds an address, as "0x%px\n".
func readAddr(name string) (uint64, error) {
	text, err := read(name)
	if err != nil {
		return 0, err
	}
	addr, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimSpace(string(text)), "0x"), 16, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %w", name, ErrSyntax, err)
	}
	return addr, nil
}

// readNames returns the names in a directory.
func readNames(dir string) ([]string, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK, 0) // as in read
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// read reads a small file of sysfs, which gives all of it at once. Package os takes several
// times the system calls, to find out if it makes a reader wait.
func read(name string) ([]byte, error) {
	fd, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer syscall.Close(fd) //nolint:errcheck // nothing was written
	var page [4096]byte
	n, err := syscall.Read(fd, page[:])
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return bytes.Clone(page[:n]), nil
}
