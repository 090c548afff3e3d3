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

// A draft is a file that is being fetched. If the disk is full, the rest is in memory.
type draft struct {
	file *os.File
	dir  string
	size int64
	full error // why the rest is not in the file
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
	f, err := os.CreateTemp(dir, buildID+".*"+draftExt)
	if err != nil {
		return nil, refuseAll(Unreadable, err)
	}
	return &draft{file: f, dir: dir}, nil
}

// Write implements [io.Writer]. It never fails: memory takes the rest if the disk is full.
func (d *draft) Write(b []byte) (int, error) {
	d.size += int64(len(b))
	n := 0
	if d.full == nil {
		n, d.full = d.file.Write(b)
	}
	d.rest.Write(b[n:])
	return len(b), nil
}

// content returns everything that was written, and information about the file.
func (d *draft) content() (io.Reader, fs.FileInfo, error) {
	info, err := d.file.Stat()
	if err == nil {
		_, err = d.file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, nil, refuseAll(Unreadable, err)
	}
	return io.MultiReader(d.file, &d.rest), info, nil
}

// keep makes the file the pack of a build, if it fits into [Options.MaxDisk]. To make room, it
// removes the packs that were used least recently.
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
		_ = os.Chtimes(filepath.Join(d.dir, id+pack.Ext), at, at) // it fails for packs that were not fetched
	}
	err := makeRoomIn(d.dir, s.opts.MaxDisk-d.size)
	if err == nil {
		err = d.file.Chmod(0o644)
	}
	if err == nil {
		err = os.Rename(d.file.Name(), filepath.Join(d.dir, buildID+pack.Ext))
	}
	return err
}

// discard closes the file and, unless it was kept, removes it.
func (d *draft) discard() {
	_ = d.file.Close()
	_ = os.Remove(d.file.Name()) // it does not exist if it was kept
}

// makeRoomIn removes packs from a directory until the others take at most that many bytes. It
// also removes files that other processes left unfinished.
func makeRoomIn(dir string, bytes int64) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var packs []fs.FileInfo
	for _, entry := range entries {
		info, err := entry.Info()
		switch {
		case err != nil: // another process has removed it
		case strings.HasSuffix(info.Name(), pack.Ext):
			packs = append(packs, info)
		case strings.HasSuffix(info.Name(), draftExt) && time.Since(info.ModTime()) > 2*fetchTimeout:
			_ = os.Remove(filepath.Join(dir, info.Name()))
		}
	}
	var total int64
	for _, info := range packs {
		total += info.Size()
	}
	slices.SortFunc(packs, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range packs {
		if total <= bytes {
			break
		}
		if err := os.Remove(filepath.Join(dir, info.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		total -= info.Size()
	}
	return nil
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
