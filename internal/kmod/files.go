// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/kernelsym/kernelsym/internal/buildid"
)

// roots are the directories where /proc and /sys are mounted, and the architecture. Its methods read
// files below them.
type roots struct {
	procfs, sysfs string
	arch          string // named as in GOARCH
}

// readList reads the kernel's list of modules. A kernel that was built without modules has no such
// file. If the kernel hides all addresses, readList returns kallsyms.ErrRestricted.
func (r *roots) readList() ([]listEntry, error) {
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
	if len(list) > 0 && !slices.ContainsFunc(list, func(e listEntry) bool { return e.addr != 0 }) {
		// Either the addresses are hidden, or all modules contain only data.
		return list, r.readKallsyms(newParser(nil, nil), func() bool { return false })
	}
	return list, nil
}

// readKallsyms has a parser read /proc/kallsyms. It returns errStopped if stop reports true before all is
// read, which takes long on a busy machine.
func (r *roots) readKallsyms(p *parser, stop func() bool) error {
	f, err := os.Open(filepath.Join(r.procfs, "kallsyms"))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := p.parse(stopReader{f, stop}); err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	return nil
}

// errStopped says that not all was read, because that was no longer wanted.
var errStopped = errors.New("stopped")

// A stopReader reads until stop reports true.
type stopReader struct {
	r    io.Reader
	stop func() bool
}

func (s stopReader) Read(p []byte) (int, error) {
	if s.stop() {
		return 0, errStopped
	}
	return s.r.Read(p)
}

// endRule returns the rule for where modules of the running kernel end.
func (r *roots) endRule() endRule {
	release, err := os.ReadFile(filepath.Join(r.procfs, "sys/kernel/osrelease"))
	if err != nil { // the host's /proc is only mounted in part; this /proc belongs to the same kernel
		release, _ = os.ReadFile("/proc/sys/kernel/osrelease")
	}
	return endRuleOf(r.arch, string(release))
}

// isLoaded reports whether the kernel's list shows that a module is live.
func (r *roots) isLoaded(module string) bool {
	list, err := r.readList()
	return err == nil && slices.ContainsFunc(list, func(e listEntry) bool { return e.live && e.name == module })
}

// moduleDir returns the directory of a module in sysfs.
func (r *roots) moduleDir(module string) string { return r.sysfs + "/module/" + module }

// readBuildID returns a module's build id, empty if it has none.
func (r *roots) readBuildID(module string) (string, error) {
	name := r.moduleDir(module) + "/notes/.note.gnu.build-id"
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

// readCoreSize returns a module's coresize, 0 if it cannot be read. The size in /proc/modules is
// larger until the kernel has freed the memory that only served to initialize the module.
func (r *roots) readCoreSize(module string) uint64 {
	text, _ := read(r.moduleDir(module) + "/coresize")
	size, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return size
}

// readAddr reads a file that contains an address, as "0x%px\n".
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
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK, 0) // for the same reason as in read
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// read reads a small file of sysfs, which the kernel returns in a single read. Package os would make
// several times as many system calls, to find out whether reading the file can block.
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
