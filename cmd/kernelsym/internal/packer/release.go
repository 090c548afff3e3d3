// SPDX-License-Identifier: Apache-2.0

package packer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kernelsym/kernelsym/internal/buildid"
)

// ErrNoVmlinux is returned if the core kernel's ELF file is in none of the places.
var ErrNoVmlinux = errors.New("no vmlinux with debug information: install the debug package of the kernel " +
	"(docs/packs.md names them), or use --debuginfod")

// vmlinuxPlaces are the paths at which distributions install the core kernel's ELF file of a
// release, %s. Files with debug information come first.
var vmlinuxPlaces = []string{
	"usr/lib/debug/boot/vmlinux-%s",                  // Debian, Ubuntu
	"usr/lib/debug/lib/modules/%s/vmlinux",           // Fedora, RHEL, Amazon Linux
	"usr/lib/debug/usr/lib/modules/%s/vmlinux",       // the same, where /lib is in /usr
	"usr/lib/debug/boot/vmlinux-%s.debug",            // SUSE
	"usr/lib/debug/usr/lib/modules/%s/vmlinux.debug", // SUSE, where /lib is in /usr
	"usr/lib/debug/lib/modules/%s/vmlinux.debug",
	"usr/lib/debug/vmlinux-%s",
	"boot/vmlinux-%s",
	"lib/modules/%s/vmlinux",
	"lib/modules/%s/build/vmlinux", // Arch, with linux-headers; where it was compiled
	"usr/lib/modules/%s/build/vmlinux",
}

// modulePlaces are the directories of a release's modules. debugPlaces are the directories of their
// debug information, with the same subdirectories.
var (
	modulePlaces = []string{"lib/modules/%s", "usr/lib/modules/%s"}
	debugPlaces  = []string{"usr/lib/debug/lib/modules/%s", "usr/lib/debug/usr/lib/modules/%s"}
)

// Release returns the jobs for all code of a release: the core kernel and its modules, as
// distributions install them below root. If root/proc shows that this release is running, the core
// kernel must have the build id in root/sys. If there is no core kernel, Release returns the jobs
// for the modules, and an error that wraps ErrNoVmlinux.
func Release(root, release string) ([]Job, error) {
	if release == "" || strings.ContainsAny(release, "/%") || strings.HasPrefix(release, ".") {
		return nil, fmt.Errorf("%q is not a kernel release, such as uname -r prints", release)
	}
	place := placesOf(root, release)
	jobs, err := releaseModules(place, release)
	if err != nil {
		return nil, err
	}
	id, err := runningBuildID(root, release)
	if err != nil {
		return nil, err
	}
	for _, format := range vmlinuxPlaces {
		if info, err := os.Stat(place(format)); err == nil && info.Mode().IsRegular() {
			core := Job{Debug: place(format), BuildID: id, Release: release}
			return append([]Job{core}, jobs...), nil
		}
	}
	return jobs, fmt.Errorf("%w: looked for %s", ErrNoVmlinux, strings.Join(filled(vmlinuxPlaces, place), ", "))
}

// placesOf returns the function that fills the release into a place below root.
func placesOf(root, release string) func(format string) string {
	return func(format string) string { return filepath.Join(root, fmt.Sprintf(format, release)) }
}

func filled(formats []string, place func(string) string) (names []string) {
	for _, format := range formats {
		names = append(names, place(format))
	}
	return names
}

// runningBuildID returns the running kernel's build id if the kernel has the given release, and
// otherwise an empty string.
func runningBuildID(root, release string) (string, error) {
	running, err := os.ReadFile(filepath.Join(root, "proc/sys/kernel/osrelease"))
	if err != nil || strings.TrimSpace(string(running)) != release {
		return "", nil //nolint:nilerr // no kernel runs there
	}
	return readBuildID(filepath.Join(root, "sys/kernel/notes"))
}

// readBuildID returns the build id in a file of notes, empty if there is no such file.
func readBuildID(name string) (string, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	id, err := buildid.Parse(f)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return id, nil
}

// releaseModules returns the jobs for the installed modules, each with its debug information. If no
// modules are installed, it returns the jobs for modules that have only debug information.
func releaseModules(place func(string) string, release string) (jobs []Job, err error) {
	debug := filled(debugPlaces, place)
	for _, dir := range append(filled(modulePlaces, place), debug...) {
		if jobs, err = modulesIn(dir, debug, release); err != nil || len(jobs) > 0 {
			return jobs, err
		}
	}
	return nil, nil
}

// modulesIn returns the jobs for the modules in a directory, or none if the directory does not
// exist.
func modulesIn(dir string, debug []string, release string) (jobs []Job, err error) {
	if linked, err := filepath.EvalSymlinks(dir); err == nil { // WalkDir follows no links, not even at its root
		dir = linked
	}
	checked := false // whether a compressed module was checked
	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		plain, ok := moduleFile(name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && name == dir:
			return nil
		case err != nil || !ok || !entry.Type().IsRegular():
			return err
		}
		job := Job{Debug: name, Release: release}
		rel, err := filepath.Rel(dir, plain)
		if err != nil {
			return err
		}
		if file := debugFile(debug, rel); file != "" && file != name {
			job.Debug, job.Loaded = file, name
		}
		// A package is one build. To decompress all of its modules would take far longer than to
		// read their debug information.
		if compressed := plain != name; job.Loaded != "" && (!compressed || !checked) {
			job.CheckLoaded = true
			checked = checked || compressed
		}
		jobs = append(jobs, job)
		return nil
	})
	return jobs, err
}

// debugFile returns the first file with the debug information of a module, which is named relative
// to the directories. The result is empty if there is none.
func debugFile(dirs []string, module string) string {
	for _, dir := range dirs {
		for _, name := range []string{module, module + ".debug"} {
			if file := filepath.Join(dir, name); sizeOf(file) > 0 {
				return file
			}
		}
	}
	return ""
}

// moduleFile reports whether a file is a module or its debug information, and returns its name
// without the extension of a compression.
func moduleFile(name string) (plain string, ok bool) {
	plain = strings.TrimSuffix(name, ".debug")
	if !strings.HasSuffix(plain, ".ko") {
		plain = strings.TrimSuffix(name, filepath.Ext(name))
	}
	return plain, strings.HasSuffix(plain, ".ko")
}
