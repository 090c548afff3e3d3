// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/packimage"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// idleAfter is how long a pack must be unused before it may be dropped for another. Profiles arrive more often.
const idleAfter = time.Minute

// A library holds packs in a limited amount of memory.
type library struct {
	packs map[string]*openPack // by build id
	max   int64                // bytes
	isNew bool                 // whether the packs changed since list was called
}

// has reports whether the pack of a build is open and, unless f is nil, was read from that file.
func (l *library) has(buildID string, f *file) bool {
	o := l.packs[buildID]
	if o == nil || f != nil && !f.isSame(o.info) {
		return false
	}
	o.checked = time.Now()
	return true
}

// An openPack is a pack in a library.
type openPack struct {
	pack  *pack.Pack
	image *timeline.Image // image of its symbols; nil unless they are wanted
	bytes int64           // of memory
	used  time.Time

	info    fs.FileInfo // about its file; nil if it has none
	checked time.Time   // when the file was last checked
}

func newLibrary(maxBytes int64) library {
	return library{packs: make(map[string]*openPack), max: maxBytes}
}

// use records that a pack is in use. It reports whether the pack is open and its file need not be checked again.
func (l *library) use(buildID string, now time.Time) bool {
	p := l.packs[buildID]
	if p == nil {
		return false
	}
	p.used = now
	return now.Sub(p.checked) < readAgain
}

// uses returns when each pack was last used, by build id.
func (l *library) uses() map[string]time.Time {
	uses := make(map[string]time.Time, len(l.packs))
	for id, p := range l.packs {
		uses[id] = p.used
	}
	return uses
}

// makeRoom makes room for the pack of a build, of size bytes. It drops as many packs as necessary, the longest idle
// first, and returns their number. If there is still no room, it drops none. An open pack of that build takes no room,
// because it will be replaced.
func (l *library) makeRoom(buildID string, size int64, now time.Time) (dropped int, err error) {
	if size > l.max {
		return 0, refuse(TooLarge, fmt.Errorf("the pack is larger than debug_info::max_bytes: %d of %d bytes", size, l.max))
	}
	var idle []*openPack
	needed := size
	for id, p := range l.packs {
		if id == buildID {
			continue
		}
		needed += p.bytes
		if now.Sub(p.used) >= idleAfter {
			idle = append(idle, p)
		}
	}
	slices.SortFunc(idle, func(a, b *openPack) int { return a.used.Compare(b.used) })
	for ; needed > l.max && dropped < len(idle); dropped++ {
		needed -= idle[dropped].bytes
	}
	if needed > l.max {
		return 0, refuse(NoRoom, errors.New("there is no room for the pack, as all others are in use: raise debug_info::max_bytes"))
	}
	for _, p := range idle[:dropped] {
		delete(l.packs, p.pack.Info().BuildID)
	}
	l.isNew = l.isNew || dropped > 0
	return dropped, nil
}

// bytes returns how much memory the packs take.
func (l *library) bytes() (n int64) {
	for _, p := range l.packs {
		n += p.bytes
	}
	return n
}

// add adds a pack, which must have room. It replaces an open pack of that build.
func (l *library) add(p *openPack) {
	l.packs[p.pack.Info().BuildID], l.isNew = p, true
}

// keptIn records that a file has the pack of a build.
func (l *library) keptIn(buildID string, info fs.FileInfo) {
	if o := l.packs[buildID]; o != nil {
		o.info = info
	}
}

// list returns the packs, and whether they have changed since the last call.
func (l *library) list() (all []*openPack, isNew bool) {
	all = slices.Collect(maps.Values(l.packs))
	isNew, l.isNew = l.isNew, false
	return all, isNew
}

// load reads a pack of size bytes and adds it to the open packs if its build is buildID. info is about the file of the
// pack; it is nil if there is none.
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
	o := &openPack{pack: p, bytes: p.Bytes(), used: now, info: info, checked: now}
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

// makeRoom drops packs to make room for that many bytes of a build's pack.
func (s *Store) makeRoom(buildID string, bytes int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	dropped, err := s.state.open.makeRoom(buildID, bytes, time.Now())
	s.state.changes.Note(symcache.KindUnload, dropped, time.Time{})
	return err
}
