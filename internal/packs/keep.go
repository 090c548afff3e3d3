// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"bytes"
	"errors"
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

// A draft is a pack that is being fetched. Memory takes what the disk does not: everything if no file can be created,
// and the rest if the disk is full or [Options.MaxDisk] leaves no room.
type draft struct {
	dir  *directory
	file *os.File // nil if there is none
	size int64
	full error // why the disk did not take the rest
	rest bytes.Buffer
}

// create begins a draft in the directory of fetched packs, which it creates if necessary.
func (d *directory) create(buildID string) (*draft, error) {
	if d.path == "" {
		return &draft{dir: d}, nil
	}
	f, err := d.createFile(buildID)
	if err != nil && ReasonOf(err) == Unreadable { // for example on a read-only file system
		return &draft{dir: d, full: err}, nil
	}
	return &draft{dir: d, file: f}, err
}

// createFile creates the file of a draft.
func (d *directory) createFile(buildID string) (*os.File, error) {
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
	return f, nil
}

// Write implements [io.Writer]. It never fails: memory takes what the disk does not.
func (d *draft) Write(b []byte) (int, error) {
	d.dir.keeping.Lock()
	defer d.dir.keeping.Unlock()
	n := 0
	if d.file != nil && d.full == nil && d.rest.Len() == 0 {
		n, d.full = d.file.Write(b[:max(0, min(int64(len(b)), d.dir.free))])
		d.dir.free -= int64(n)
	}
	d.rest.Write(b[n:])
	d.size += int64(len(b))
	return len(b), nil
}

// content returns everything that was written.
func (d *draft) content() io.Reader {
	rest := d.rest.Bytes()
	return io.MultiReader(io.NewSectionReader(d.file, 0, d.size-int64(len(rest))), bytes.NewReader(rest))
}

// keep makes the file the pack of a build, which is open, if it fits into [Options.MaxDisk]. To make room, it removes
// the packs that were used least recently.
func (s *Store) keep(d *draft, buildID string) error {
	if d.file == nil || d.full != nil || d.size > s.opts.MaxDisk {
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
	_, err := d.file.Write(d.rest.Bytes())
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
	if d.file == nil {
		return
	}
	d.dir.keeping.Lock()
	defer d.dir.keeping.Unlock()
	if info, err := d.file.Stat(); err == nil && os.Remove(d.file.Name()) == nil { // it does not exist if it was kept
		d.dir.free += info.Size()
	}
	_ = d.file.Close()
}

// checkDisk returns an error if no pack could be kept now.
func (d *directory) checkDisk() error {
	f, err := d.createFile("")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 4096)) // a full disk may still have room for a name
	_ = f.Close()
	_ = os.Remove(f.Name())
	return err
}

// errDrafts says that there is no room for a pack although no other is kept.
var errDrafts = errors.New("other packs that are being fetched take all of debug_info::max_disk")

// makeRoom removes packs until a file can grow by that many bytes. keeping is held.
func (d *directory) makeRoom(bytes int64) error {
	packs, err := d.list()
	if err != nil {
		return err
	}
	most := d.free // if all packs are removed
	for _, info := range packs {
		most += info.Size()
	}
	if most < bytes {
		return errDrafts
	}
	slices.SortFunc(packs, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for i := 0; d.free < bytes; i++ {
		err := os.Remove(filepath.Join(d.fetched(), packs[i].Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		d.free += packs[i].Size()
	}
	d.free -= bytes
	return nil
}

// removeAbandoned removes the drafts of processes that were killed, and finds out how much room there is for new ones.
func (d *directory) removeAbandoned() {
	d.keeping.Lock()
	defer d.keeping.Unlock()
	_, _ = d.list() // whoever keeps a pack gets the error
}

// list returns the files of fetched packs, and sets free to what [Options.MaxDisk] leaves beside them and all drafts.
// It removes abandoned drafts. keeping is held.
func (d *directory) list() (packs []fs.FileInfo, err error) {
	entries, err := os.ReadDir(d.fetched())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	d.free = d.maxDisk
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue // another process has removed it, or it is none of a store's files
		}
		path := filepath.Join(d.fetched(), info.Name())
		switch {
		case strings.HasSuffix(info.Name(), pack.Ext):
			packs = append(packs, info)
			d.free -= info.Size()
		case strings.HasSuffix(info.Name(), draftExt) && (!isAbandoned(path, info) || os.Remove(path) != nil):
			d.free -= info.Size()
		}
	}
	return packs, nil
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
