// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// archive writes an initial RAM disk: a cpio archive of the kind "newc"
// (Documentation/driver-api/early-userspace/buffer-format.rst).
type archive struct {
	w    *bufio.Writer
	dirs map[string]bool
	err  error // the first error
	n    int   // number of entries
}

func newArchive(w io.Writer) *archive {
	return &archive{w: bufio.NewWriterSize(w, 1<<20), dirs: map[string]bool{"/": true, ".": true}}
}

// entry adds an entry with the content of r.
func (a *archive) entry(name string, mode uint32, size int64, r io.Reader) {
	if a.err != nil {
		return
	}
	a.n++
	stored := name[min(len(name), 1):] // without the slash
	const header = "070701" + "%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x"
	n, err := fmt.Fprintf(a.w, header+"%s\x00", a.n, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(stored)+1, 0, stored)
	pad := func(n int64) {
		_, _ = a.w.Write(make([]byte, -n&3)) // the writer keeps its error
	}
	pad(int64(n))
	if err == nil && r != nil {
		_, err = io.CopyN(a.w, r, size)
	}
	pad(size)
	a.err = err
}

// parents adds the directories above a file.
func (a *archive) parents(name string) {
	dir := path.Dir(name)
	if a.dirs[dir] {
		return
	}
	a.dirs[dir] = true
	a.parents(dir)
	a.entry(dir, 0o040755, 0, nil)
}

// file adds an executable file with the content of a file of this machine.
func (a *archive) file(name, from string) {
	if a.err != nil {
		return
	}
	f, err := os.Open(from)
	if err != nil {
		a.err = err
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		a.err = err
		return
	}
	a.parents(name)
	a.entry(name, 0o100755, info.Size(), f)
}

// tree adds the wanted files below a directory, if the directory exists.
func (a *archive) tree(name, from string, wanted func(name string) bool) {
	err := filepath.WalkDir(from, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if rel, _ := filepath.Rel(from, file); entry.Type().IsRegular() && wanted(file) {
			a.file(path.Join(name, filepath.ToSlash(rel)), file)
		}
		return a.err
	})
	if a.err == nil && !os.IsNotExist(err) {
		a.err = err
	}
}

// content adds a file with the given content.
func (a *archive) content(name string, content []byte) {
	a.parents(name)
	a.entry(name, 0o100644, int64(len(content)), bytes.NewReader(content))
}

func (a *archive) close() error {
	a.entry("/TRAILER!!!", 0, 0, nil)
	if a.err == nil {
		a.err = a.w.Flush()
	}
	return a.err
}
