// SPDX-License-Identifier: Apache-2.0

// Package packfiles finds and opens packs in the files and directories that a command line
// names.
package packfiles

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/regularfile"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// ErrNotFound is returned for a build without a pack.
var ErrNotFound = errors.New("no pack of this build")

// Files holds packs. It reads each one when it is first needed, and keeps it. Files is not safe for
// concurrent use.
type Files struct {
	names map[string]string // file names, by build id
	packs map[string]*pack.Pack
}

// Find returns the packs at some paths. A path can be a pack with any name, or a directory. In a
// directory, packs are named <build id>.kspack, and all other files are ignored. Find reads a pack
// that is named itself at once, and packs in directories when they are needed. If two paths have a
// pack of one build, the first counts.
func Find(paths []string) (*Files, error) {
	f := &Files{names: make(map[string]string), packs: make(map[string]*pack.Pack)}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if info.IsDir() {
			err = f.addDirectory(path)
		} else {
			err = f.addFile(path)
		}
		if err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *Files) addDirectory(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), pack.Ext)
		if _, has := f.names[id]; ok && !has && pack.IsBuildID(id) {
			f.names[id] = filepath.Join(path, e.Name())
		}
	}
	return nil
}

func (f *Files) addFile(path string) error {
	p, err := read(path)
	if err != nil {
		return err
	}
	id := p.Info().BuildID
	if _, has := f.names[id]; !has {
		f.names[id], f.packs[id] = path, p
	}
	return nil
}

// BuildIDs returns the build ids that have packs, sorted. Packs in directories are identified by
// their names alone.
func (f *Files) BuildIDs() []string { return slices.Sorted(maps.Keys(f.names)) }

// Open returns the pack of a build. The error wraps ErrNotFound if there is none, and
// otherwise names the file that cannot be read.
func (f *Files) Open(buildID string) (*pack.Pack, error) {
	if p := f.packs[buildID]; p != nil {
		return p, nil
	}
	name, ok := f.names[buildID]
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, buildID)
	}
	p, err := read(name)
	if err != nil {
		return nil, err
	}
	if id := p.Info().BuildID; id != buildID {
		return nil, fmt.Errorf("%s: a pack of another build: %s", name, id)
	}
	f.packs[buildID] = p
	return p, nil
}

// All returns all packs in the order of their build ids, and an error that names the ones that
// cannot be read.
func (f *Files) All() (packs []*pack.Pack, err error) {
	for _, id := range f.BuildIDs() {
		p, errOpen := f.Open(id)
		if errOpen != nil {
			err = errors.Join(err, errOpen)
			continue
		}
		packs = append(packs, p)
	}
	return packs, err
}

// read reads a pack from a file.
func read(name string) (*pack.Pack, error) {
	f, err := regularfile.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	p, err := pack.Read(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}
