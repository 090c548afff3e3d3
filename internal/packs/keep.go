// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// draftExt is the extension of files that are being written.
const draftExt = ".tmp"

// A draft is a file that is being fetched. If the disk is full, or [Options.MaxDisk] leaves no room, the rest is in
// memory.
type draft struct {
	file *os.File
	dir  *directory
	size int64
	full error // why the disk did not take the rest
	rest bytes.Buffer
}

// create begins a file in the directory of fetched packs, which it creates if necessary.
func (d *directory) create(buildID string) (*draft, error) {
	dir := d.fetched()
	if err := checkParents(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, refuseAll(Unreadable, err)
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	d.keeping.Lock() // until it is locked, it seems to be abandoned
	defer d.keeping.Unlock()
	f, err := os.CreateTemp(dir, buildID+".*"+draftExt)
	if err != nil {
		return nil, refuseAll(Unreadable, err)
	}
	_ = lock(f) // where files cannot be locked, the age of a draft decides
	return &draft{file: f, dir: d}, nil
}

// Write implements [io.Writer]. It never fails: memory takes what the disk does not.
func (d *draft) Write(b []byte) (int, error) {
	d.size += int64(len(b))
	n := 0
	if d.full == nil && d.rest.Len() == 0 {
		n, d.full = d.dir.write(d.file, b)
	}
	d.rest.Write(b[n:])
	return len(b), nil
}

// write writes as much of b to a draft as there is room for.
func (d *directory) write(f *os.File, b []byte) (int, error) {
	d.keeping.Lock()
	defer d.keeping.Unlock()
	n, err := f.Write(b[:min(int64(len(b)), d.free)])
	d.free -= int64(n)
	return n, err
}

// content returns everything that was written.
func (d *draft) content() (io.Reader, error) {
	if _, err := d.file.Seek(0, io.SeekStart); err != nil {
		return nil, refuseAll(Unreadable, err)
	}
	return io.MultiReader(d.file, bytes.NewReader(d.rest.Bytes())), nil
}

// keep makes the file the pack of a build, which is open, if it fits into [Options.MaxDisk]. To make room, it removes
// the packs that were used least recently.
func (s *Store) keep(d *draft, buildID string) error {
	if d.full != nil || d.size > s.opts.MaxDisk {
		return d.full
	}
	s.dir.keeping.Lock()
	defer s.dir.keeping.Unlock()
	s.mu.Lock()
	used := s.state.open.uses()
	s.mu.Unlock()
	for id, at := range used {
		_ = os.Chtimes(s.dir.keptAt(id), at, at) // it fails for packs that were not fetched
	}
	err := s.dir.makeRoom(int64(d.rest.Len()))
	if err != nil {
		return err
	}
	info, err := d.finish(s.dir.keptAt(buildID))
	if err == nil {
		s.mu.Lock()
		s.state.open.keptIn(buildID, info)
		s.mu.Unlock()
	}
	return err
}

// finish writes the rest to the file, and renames it.
func (d *draft) finish(path string) (fs.FileInfo, error) {
	_, err := d.file.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = d.file.Write(d.rest.Bytes())
	}
	if err == nil {
		err = d.file.Chmod(0o644)
	}
	if err == nil {
		err = os.Rename(d.file.Name(), path)
	}
	if err != nil {
		return nil, err
	}
	return d.file.Stat()
}

// discard closes the file and, unless it was kept, removes it.
func (d *draft) discard() {
	d.dir.keeping.Lock()
	defer d.dir.keeping.Unlock()
	if info, err := d.file.Stat(); err == nil && os.Remove(d.file.Name()) == nil { // it does not exist if it was kept
		d.dir.free += info.Size()
	}
	_ = d.file.Close()
}

// errDrafts says that there is no room for a pack although no other is kept.
var errDrafts = errors.New("other packs that are being fetched take all of debug_info::max_disk")

// makeRoom removes packs until a file can grow by that many bytes. keeping is held.
func (d *directory) makeRoom(bytes int64) error {
	packs, drafts, err := d.list()
	if err != nil {
		return err
	}
	if drafts+bytes > d.maxDisk {
		return errDrafts
	}
	slices.SortFunc(packs, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	free := d.freeBeside(packs, drafts)
	for _, info := range packs {
		if free >= bytes {
			break
		}
		if err := os.Remove(filepath.Join(d.fetched(), info.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		free += info.Size()
	}
	d.free = max(0, free-bytes)
	return nil
}

// freeBeside returns how many bytes [Options.MaxDisk] leaves beside packs and drafts, below zero if they take more.
func (d *directory) freeBeside(packs []fs.FileInfo, drafts int64) int64 {
	free := d.maxDisk - drafts
	for _, info := range packs {
		free -= info.Size()
	}
	return free
}

// removeAbandoned removes the drafts of processes that were killed, and finds out how much room there is for new ones.
func (d *directory) removeAbandoned() {
	d.keeping.Lock()
	defer d.keeping.Unlock()
	packs, drafts, err := d.list()
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		d.free = max(0, d.freeBeside(packs, drafts))
	}
}

// list returns the files of fetched packs, and the bytes of all drafts. It removes abandoned drafts.
func (d *directory) list() (packs []fs.FileInfo, drafts int64, err error) {
	entries, err := os.ReadDir(d.fetched())
	if err != nil {
		return nil, 0, err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue // another process has removed it, or it is none of a store's files
		}
		path := filepath.Join(d.fetched(), info.Name())
		switch {
		case strings.HasSuffix(info.Name(), pack.Ext):
			packs = append(packs, info)
		case strings.HasSuffix(info.Name(), draftExt) && (!isAbandoned(path, info) || os.Remove(path) != nil):
			drafts += info.Size()
		}
	}
	return packs, drafts, nil
}

// isAbandoned reports whether no process writes a draft any more: the lock of a process ends with it.
func isAbandoned(path string, info fs.FileInfo) bool {
	if time.Since(info.ModTime()) > 2*fetchTimeout {
		return true
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return lock(f) == nil
}

// touch records that a fetched pack was used.
func (f *file) touch() {
	if f.fetched {
		now := time.Now()
		_ = os.Chtimes(f.Name(), now, now) // in a read-only directory no pack is ever removed
	}
}

// refused returns the error for a pack that was refused. If the pack was fetched, and fetching
// it again may help, it removes the file and says that there is none: after an update of the
// collector, the pack can have a version that is no longer supported.
func (f *file) refused(err error) error {
	switch refusalOf(err).reason {
	case Damaged, Version, BuildID:
		if f.fetched && os.Remove(f.Name()) == nil {
			return errNotFound
		}
	}
	return fmt.Errorf("%s: %w", f.Name(), err)
}
