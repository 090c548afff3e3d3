// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/packimage"
	"github.com/kernelsym/kernelsym/internal/symcache"
)

// look looks for the pack of a wish in the directory.
func (s *Store) look(id wishID) {
	if !id.isFile {
		s.settle(id, placeDirectory, s.openKept(id.text))
		return
	}
	buildID, err := s.dir.buildOf(id.text)
	s.mu.Lock()
	hosts := slices.Clone(s.state.wishes.all[id].hosts)
	s.mu.Unlock()
	s.settle(id, placeDirectory, err)
	if err == nil {
		for _, host := range hosts {
			s.Use(host, []string{buildID}, nil)
		}
	}
}

// openKept opens the pack of a build from the directory, unless it is already open.
func (s *Store) openKept(buildID string) error {
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

// load reads a pack of size bytes and adds it to the open packs if its build is buildID. info
// is about the file of the pack; it is nil if there is none.
func (s *Store) load(r io.Reader, size int64, info fs.FileInfo, buildID string) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	if err := s.makeRoom(buildID, size); err != nil {
		return err
	}
	p, err := read(r, size, buildID)
	if err != nil {
		return err
	}
	now := time.Now()
	o := &opened{Pack: p, bytes: p.Bytes(), used: now, info: info, looked: now}
	if s.opts.Gateway {
		if err := s.makeRoom(buildID, o.bytes+packimage.LeastMemory(p)); err != nil { // before the image takes memory
			return err
		}
		s.slot = (s.slot + 1) % (packimage.MaxSlot + 1)
		if o.image, err = packimage.New(p, s.slot); err != nil {
			return refuse(Damaged, err)
		}
		o.bytes += o.image.Text.Memory()
		if err := s.makeRoom(buildID, o.bytes); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.open.add(o)
	s.state.changes.Note(symcache.KindLoad, 1, time.Time{})
	return nil
}

// read reads the pack of a build, of size bytes.
func read(r io.Reader, size int64, buildID string) (*pack.Pack, error) {
	p, err := pack.Read(r, size)
	if err == nil && p.Info().BuildID != buildID {
		err = refuse(BuildID, fmt.Errorf("it is the pack of %s", p.Info().BuildID))
	}
	return p, err
}

// Read reads the pack of a build from a directory as a store does. [ReasonOf] says what
// kind of error it returns.
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

// ReasonOf returns why [Read] returned an error.
func ReasonOf(err error) Reason { return refusalOf(err).reason }

// makeRoom drops packs to make room for that many bytes of a build's pack.
func (s *Store) makeRoom(buildID string, bytes int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	dropped, err := s.state.open.makeRoom(buildID, bytes, time.Now())
	s.state.changes.Note(symcache.KindUnload, dropped, time.Time{})
	return err
}

// settle records how a step of a wish has ended.
func (s *Store) settle(id wishID, at place, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.news.wake()
	s.state.broken[at] = nil
	if err == nil {
		s.state.wishes.remove(id)
		return
	}
	w, r, now := s.state.wishes.all[id], refusalOf(err), time.Now()
	w.step, w.look = stepNone, now.Add(lookAgain)
	if at == placeDirectory && r.reason == NotFound && !r.broken && s.opts.URL != "" && !id.isFile {
		if !now.Before(w.fetch) {
			s.state.wishes.queue(w, placeURL)
			s.queues[placeURL].wake()
		}
		return
	}
	s.state.refused[r.reason]++
	w.problem = nil
	switch {
	case r.broken:
		s.state.broken[at] = err
	case r.reason != NotFound:
		w.problem = err
	}
	if at == placeURL && !r.broken {
		w.fetch = now.Add(fetchAgain)
	}
}
