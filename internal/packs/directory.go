// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// fetchedDir is the directory of fetched packs, below the directory of all packs.
const fetchedDir = "fetched"

// A directory holds packs as files. The zero value holds none.
type directory struct {
	path    string
	fetches bool  // it is created when there is a fetched pack to keep
	maxDisk int64 // limit on the bytes of fetched packs and of drafts

	keeping sync.Mutex // held while files are written, or removed to make room; locked before the mutex of a Store
	free    int64      // bytes that drafts may still take, negative if they take too many; guarded by keeping

	// index has the builds that had packs when the directory was read, by their file IDs.
	index  map[string]string
	readAt time.Time
}

// file is an open file of a directory.
type file struct {
	*os.File
	info    fs.FileInfo
	fetched bool
}

// isSame reports whether the file is the same as before, and unchanged. A fetched file is only ever replaced as a
// whole; its modification time is the time of its last use.
func (f *file) isSame(before fs.FileInfo) bool {
	return before != nil && os.SameFile(f.info, before) && f.info.Size() == before.Size() &&
		(f.fetched || f.info.ModTime().Equal(before.ModTime()))
}

// touch records that a fetched pack was used.
func (f *file) touch() {
	if f.fetched {
		now := time.Now()
		_ = os.Chtimes(f.Name(), now, now) // in a read-only directory no pack is ever removed
	}
}

// refused returns the error for a pack that was refused. If the pack was fetched, and fetching it again may help, it
// removes the file and says that there is none: after an update of the collector, the pack can have a version that is
// no longer supported.
func (f *file) refused(err error) error {
	switch ReasonOf(err) {
	case Damaged, Version, BuildID:
		if f.fetched && os.Remove(f.Name()) == nil {
			return errNotFound
		}
	}
	return fmt.Errorf("%s: %w", f.Name(), err)
}

// fetched returns the path of the directory of fetched packs.
func (d *directory) fetched() string { return filepath.Join(d.path, fetchedDir) }

// keptAt returns the path of the fetched pack of a build.
func (d *directory) keptAt(buildID string) string {
	return filepath.Join(d.fetched(), buildID+pack.Ext)
}

// readAll reads packs from the directory, one after the other, until ctx is done.
func (s *Store) readAll(ctx context.Context) {
	for {
		id, ok := s.next(ctx, inDirectory)
		if !ok {
			return
		}
		s.readFromDir(id)
	}
}

// readFromDir reads the pack of a request from the directory. The hosts that use a file ID use the build that it stands
// for.
func (s *Store) readFromDir(id requestID) {
	if !id.isFile {
		s.finish(id, inDirectory, s.openFromDir(id.text))
		return
	}
	buildID, err := s.dir.buildOf(id.text)
	for _, host := range s.finish(id, inDirectory, err) {
		s.Use(host, []string{buildID}, nil)
	}
}

// openFromDir opens the pack of a build from the directory, unless it is already open.
func (s *Store) openFromDir(buildID string) error {
	f, err := s.dir.find(buildID)
	if err == nil {
		defer f.Close()
	} else if !errors.Is(err, errNotFound) {
		return err
	}
	s.mu.Lock()
	isOpen := s.state.open.has(buildID, f) // an open pack needs no file
	s.mu.Unlock()
	switch {
	case isOpen:
		return nil
	case err != nil:
		return err
	}
	if err := s.load(f, f.info.Size(), f.info, buildID); err != nil {
		return f.refused(err)
	}
	f.touch()
	return nil
}

// Check returns the error for which a store finds no packs at all in a directory. [ReasonOf] says what kind of error it is.
func Check(dir string) error {
	d := directory{path: dir}
	return d.check()
}

// Read reads the pack of a build from a directory as a store does. [ReasonOf] says what kind of error it returns.
func Read(dir, buildID string) (*pack.Pack, error) {
	d := directory{path: dir}
	f, err := d.find(buildID)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := read(f, f.info.Size(), buildID)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return p, nil
}

// open opens the directory and the directory of fetched packs, as far as they exist. No name leads out of them.
func (d *directory) open() (dirs []*os.Root, err error) {
	if d.path == "" {
		return nil, nil
	}
	for _, path := range []string{d.path, d.fetched()} {
		dir, err := openDirectory(path)
		if isNotFound(err) && (d.fetches || len(dirs) > 0) {
			continue
		}
		if err != nil {
			closeAll(dirs)
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

func closeAll(dirs []*os.Root) {
	for _, dir := range dirs {
		_ = dir.Close()
	}
}

// openDirectory opens a directory, unless others can write to it or choose what is at its path.
func openDirectory(path string) (*os.Root, error) {
	if err := checkParents(path); err != nil {
		return nil, err
	}
	dir, err := os.OpenRoot(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refuseAll(NotFound, fmt.Errorf("%w: create it, or set debug_info::url to fetch packs", err))
	} else if err != nil {
		return nil, refuseAll(Unreadable, err)
	}
	info, err := dir.Stat(".")
	if err != nil {
		err = refuseAll(Unreadable, err)
	} else if err = checkTrust(path, info); err != nil {
		err = refuseAll(Insecure, err)
	}
	if err != nil {
		_ = dir.Close()
		return nil, err
	}
	return dir, nil
}

// check returns an error if no packs can be found.
func (d *directory) check() error {
	dirs, err := d.open()
	closeAll(dirs)
	return err
}

// find opens the pack of a build.
func (d *directory) find(buildID string) (*file, error) {
	dirs, err := d.open()
	if err != nil {
		return nil, err
	}
	defer closeAll(dirs)
	for _, dir := range dirs {
		f, err := openFile(dir, buildID+pack.Ext)
		if err == nil {
			f.fetched = dir.Name() == d.fetched()
		}
		if !isNotFound(err) {
			return f, err
		}
	}
	return nil, errNotFound
}

// openFile opens a pack in a directory.
func openFile(dir *os.Root, name string) (*file, error) {
	path := filepath.Join(dir.Name(), name)
	info, err := dir.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errNotFound
	case err != nil:
		return nil, refuse(Unreadable, fmt.Errorf("%s: %w", path, err))
	case !info.Mode().IsRegular(): // opening a pipe would wait for a writer
		return nil, refuse(Unreadable, fmt.Errorf("%s is not a regular file", path))
	}
	f, err := dir.Open(name)
	if err != nil {
		return nil, refuse(Unreadable, fmt.Errorf("%s: %w", path, err))
	}
	if info, err = f.Stat(); err != nil {
		err = refuse(Unreadable, err)
	} else if err = checkTrust(path, info); err != nil {
		err = refuse(Insecure, err)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &file{File: f, info: info}, nil
}

// buildOf returns the build that has a file ID, if the directory has its pack. It is not safe for concurrent use.
func (d *directory) buildOf(fileID string) (string, error) {
	if now := time.Now(); now.Sub(d.readAt) >= readAgain {
		builds, err := d.builds()
		if err != nil {
			return "", err
		}
		d.index, d.readAt = builds, now
	}
	if id := d.index[fileID]; id != "" {
		return id, nil
	}
	return "", errNotFound
}

// builds returns the build ids of all packs, by their file IDs. It reads only the names of the files.
func (d *directory) builds() (map[string]string, error) {
	dirs, err := d.open()
	if err != nil {
		return nil, err
	}
	defer closeAll(dirs)
	builds := make(map[string]string)
	for _, dir := range dirs {
		entries, err := fs.ReadDir(dir.FS(), ".")
		if err != nil {
			return nil, refuseAll(Unreadable, err)
		}
		for _, entry := range entries {
			if id, ok := strings.CutSuffix(entry.Name(), pack.Ext); ok && pack.IsBuildID(id) {
				builds[buildid.FileID(id)] = id
			}
		}
	}
	return builds, nil
}
