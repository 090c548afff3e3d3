// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/kernelsym/kernelsym/internal/kmod"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// modulesTree has the files in which Linux 6.12 describes a hundred modules. kmod's TestCapture
// explains how it was made.
//
//go:embed testdata/modules.tar.zst
var modulesTree []byte

// benchModules measures loading the tables of modules.
func benchModules(rounds int) error {
	dir, err := os.MkdirTemp("", "kernelsym-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := unpack(dir, modulesTree); err != nil {
		return err
	}
	release := filepath.Join(dir, "proc/sys/kernel/osrelease")
	if err := errors.Join(os.MkdirAll(filepath.Dir(release), 0o700), os.WriteFile(release, []byte("6.12\n"), 0o600)); err != nil {
		return err
	}
	var errs []error
	load := func() *timeline.Snapshot {
		snapshot, err := symcache.Load(context.Background(),
			kmod.NewSource(filepath.Join(dir, "proc"), filepath.Join(dir, "sys"), 0, timeline.Limits{}))
		errs = append(errs, err)
		return snapshot
	}
	held, allocated := memory(func() any { return load() })
	symbols := 0
	for _, t := range load().Tables() {
		for _, m := range t.Loaded() {
			symbols += m.Len()
		}
	}
	report("modules_bytes_per_symbol", held/float64(symbols))
	report("modules_load_alloc_mb", allocated/1e6)
	t := medians(rounds, wall, task{run: func() { load() }}, task{run: func() { errs = append(errs, readModules(dir)) }})
	report("modules_load_ms", float64(t[0])/timesARound/float64(time.Millisecond))
	report("modules_load_vs_read", ratio(t[0], t[1]))
	return errors.Join(errs...)
}

// readModules reads each file that is needed for a table of modules once.
func readModules(dir string) error {
	sys := filepath.Join(dir, "sys/module")
	modules, err := os.ReadDir(sys)
	if err != nil {
		return err
	}
	files := []string{filepath.Join(dir, "proc/modules"), filepath.Join(dir, "proc/kallsyms")}
	for _, m := range modules {
		files = append(files, filepath.Join(sys, m.Name(), "notes/.note.gnu.build-id"))
		sections, err := os.ReadDir(filepath.Join(sys, m.Name(), "sections"))
		if err != nil {
			return err
		}
		for _, s := range sections {
			if strings.HasSuffix(s.Name(), ".text") { // also of init text
				files = append(files, filepath.Join(sys, m.Name(), "sections", s.Name()))
			}
		}
	}
	for _, name := range files {
		if _, err := os.ReadFile(name); err != nil {
			return err
		}
	}
	return nil
}

// unpack unpacks an archive to a directory.
func unpack(dir string, archive []byte) error {
	z, err := zstd.NewReader(bytes.NewReader(archive))
	if err != nil {
		return err
	}
	defer z.Close()
	for r := tar.NewReader(z); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		name := filepath.Join(dir, filepath.FromSlash(header.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return err
		}
	}
}
