// SPDX-License-Identifier: Apache-2.0

package dwarfpack

import (
	"path"
	"strings"
)

// A sourceTree locates the top of the kernel tree at the time the file was compiled. Paths in the
// tree are given from there, such as "mm/slub.c". Files elsewhere keep their paths.
//
// A module that is not part of the kernel tree is compiled in the tree of the kernel's headers or,
// since Linux 6.13, in its own directory. It can also have headers of its own in include/linux.
// Therefore neither directory locates the kernel tree, and all files of the module keep their
// paths.
type sourceTree struct {
	outside bool // the file is a module outside of the kernel tree
	known   bool
	top     string // the absolute path; empty if the compiler was told to leave it out
	build   string // if top is empty, the build directory, from the top
}

// find records the top of the tree if a directory of a unit reveals it.
func (s *sourceTree) find(comp, dir string) {
	const headers = "include/linux"
	full := join(comp, dir)
	top, ok := strings.CutSuffix("/"+full, "/"+headers)
	if !ok || strings.HasSuffix(top, "/tools") {
		return
	}
	s.known = true
	if path.IsAbs(comp) || path.IsAbs(dir) {
		s.top = path.Clean(top)
		return
	}
	s.build = comp
}

// strip returns the path of a file from the top of the tree. It is empty for a relative path in a
// module outside of the tree, because such a path could also be in the tree.
func (s *sourceTree) strip(comp, file string) string {
	if s.outside {
		if path.IsAbs(file) {
			return file
		}
		return ""
	}
	if rest, ok := strings.CutPrefix(file, comp+"/"); ok && comp != "" {
		return rest
	}
	top := s.top
	if s.build != "" {
		// Debian's 6.1 leaves the top out for the compiler, but not for the assembler.
		top, _ = strings.CutSuffix(comp, "/"+s.build)
	}
	if rest, ok := strings.CutPrefix(file, top+"/"); ok && top != "" {
		return rest
	}
	return file
}

// join returns the path of a file that is named relative to a directory.
func join(dir, file string) string {
	if path.IsAbs(file) {
		return path.Clean(file)
	}
	return path.Join(dir, file)
}

// compDir returns the directory in which a unit was compiled.
func (u *unit) compDir() (string, error) {
	v, ok := u.root.get(slotCompDir)
	if !ok {
		return "", nil
	}
	dir, err := u.string(u.data, v)
	if err != nil || dir == "" {
		return "", err
	}
	return path.Clean(dir), nil
}

// dirName returns the name of a directory of a line table.
func (u *unit) dirName(t *fileTable, dir value) (string, error) {
	if dir.form == 0 {
		return "", nil
	}
	return u.string(t.data, dir)
}
