// SPDX-License-Identifier: Apache-2.0

package dwarfpack

import (
	"fmt"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// files are the source files of a kernel.
type files struct {
	units *units
	w     *pack.Writer
	tree  sourceTree
}

// number returns the pack's number of a file of a unit, or 0 if the unit has no file of that
// number.
func (fs *files) number(u *unit, number uint64) (pack.File, error) {
	t, err := u.fileTable(nil)
	if err != nil || number < t.first || number-t.first >= uint64(len(t.files)) {
		return 0, err
	}
	e := &t.files[number-t.first]
	if e.known {
		return e.number, nil
	}
	path, err := fs.path(u, t, e)
	if err != nil {
		return 0, fmt.Errorf("file %d: %w", number, err)
	}
	e.number, e.known = fs.w.File(path), true
	return e.number, nil
}

// path returns the path of a file in a line table, from the top of the kernel tree. The path is
// empty if it would look like one in the kernel tree without being one.
func (fs *files) path(u *unit, t *fileTable, e *fileEntry) (string, error) {
	name, err := u.string(t.data, e.name)
	if err != nil {
		return "", err
	}
	comp, err := u.compDir()
	if err != nil {
		return "", err
	}
	dir := "" // directory 0 is where the unit was compiled
	if e.dir > 0 && e.dir < uint64(len(t.dirs)) {
		if dir, err = u.dirName(t, t.dirs[e.dir]); err != nil {
			return "", err
		}
	}
	full := join(comp, join(dir, name))
	return fs.tree.strip(comp, full), u.sections.spend(uint64(len(comp) + len(dir) + len(name)))
}

// findTop searches for a unit that has headers in include/linux. The directory above that is the
// top of the tree. Units of assembler code tend to have no such headers.
func (fs *files) findTop() error {
	if fs.tree.outside {
		return nil
	}
	for _, off := range fs.units.starts {
		u, err := fs.units.read(off, nil)
		if err != nil {
			return fmt.Errorf("section %s: unit at %#x: %w", fs.units.sections.info.Name(), off, err)
		}
		t, err := u.fileTable(nil)
		if err != nil {
			return err
		}
		comp, err := u.compDir()
		if err != nil {
			return err
		}
		for _, dir := range t.dirs {
			name, err := u.dirName(t, dir)
			if err != nil {
				return err
			}
			if err := u.sections.spend(uint64(len(comp) + len(name))); err != nil {
				return err
			}
			if fs.tree.find(comp, name); fs.tree.known {
				return nil
			}
		}
	}
	return nil
}
