// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// NeedModules skips the test unless it runs in a virtual machine of `make test-vm`, because it
// loads and unloads modules.
func NeedModules(t testing.TB) {
	t.Helper()
	if !InVM() {
		t.Skip("not in a virtual machine of `make test-vm`: real modules are not tested")
	}
}

// NeedVM skips the test unless it runs in a virtual machine of `make test-vm`, because it changes
// the state of the kernel.
func NeedVM(t testing.TB) {
	t.Helper()
	if !InVM() {
		t.Skip("not in a virtual machine of `make test-vm`: what changes the state of the kernel is not tested")
	}
}

// A ModuleFile is a module that can be loaded.
type ModuleFile struct {
	Name string // as the kernel writes it
	File string
}

// moduleFiles are the modules of the running kernel, by name.
var moduleFiles = sync.OnceValues(func() (map[string]*ModuleFile, error) {
	var uname unix.Utsname
	if err := unix.Uname(&uname); err != nil {
		return nil, err
	}
	all := make(map[string]*ModuleFile)
	dir := filepath.Join("/lib/modules", unix.ByteSliceToString(uname.Release[:]))
	err := filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
		if base, ok := strings.CutSuffix(filepath.Base(file), ".ko"); ok && err == nil {
			name := strings.ReplaceAll(base, "-", "_")
			all[name] = &ModuleFile{Name: name, File: file}
		}
		return err
	})
	return all, err
})

// ModuleNames returns the names of all available modules, sorted.
func ModuleNames(t testing.TB) (names []string) {
	t.Helper()
	files, err := moduleFiles()
	if err != nil {
		t.Fatal(err)
	}
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// FindModule returns the file of a module.
func FindModule(t testing.TB, name string) *ModuleFile {
	t.Helper()
	m, err := LookModule(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// LookModule returns the file of a module, or an error that is os.ErrNotExist if the
// running kernel has no such module.
func LookModule(name string) (*ModuleFile, error) {
	files, err := moduleFiles()
	if err != nil {
		return nil, err
	}
	m := files[name]
	if m == nil {
		return nil, fmt.Errorf("module %s: %w", name, os.ErrNotExist)
	}
	return m, nil
}

// LoadModule loads a module and the modules that it depends on. It is not an error if it is loaded
// already.
func LoadModule(name string) error {
	m, err := LookModule(name)
	if err != nil {
		return err
	}
	// Otherwise, the kernel reads the file and checks its signature before it finds that out.
	if state, err := os.ReadFile(filepath.Join("/sys/module", name, "initstate")); err == nil && string(state) == "live\n" {
		return nil
	}
	depends, err := m.depends()
	if err != nil {
		return err
	}
	for _, other := range depends {
		if err := LoadModule(other); err != nil {
			return err
		}
	}
	f, err := os.Open(m.File)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("loading %s: %w", name, err)
	}
	return nil
}

// UnloadModule unloads a module.
func UnloadModule(name string) error {
	if err := unix.DeleteModule(name, unix.O_NONBLOCK); err != nil {
		return fmt.Errorf("unloading %s: %w", name, err)
	}
	return nil
}

// depends reads the names of the modules that a module needs from its section
// .modinfo.
func (m *ModuleFile) depends() ([]string, error) {
	f, err := elf.Open(m.File)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("%s: no section .modinfo", m.File)
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for entry := range strings.SplitSeq(string(info), "\x00") {
		if list, ok := strings.CutPrefix(entry, "depends="); ok && list != "" {
			return strings.Split(strings.ReplaceAll(list, "-", "_"), ","), nil
		}
	}
	return nil, nil
}
