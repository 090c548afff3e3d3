// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// idleAfter is how long a pack must be unused before it may be dropped for another. Profiles
// arrive more often.
const idleAfter = time.Minute

// A library holds packs in a limited amount of memory.
type library struct {
	packs map[string]*opened // by build id
	bytes int64
	max   int64
	isNew bool // whether the packs changed since list was called
}

// has reports whether the pack of a build is open and, unless f is nil, was read from that
// file.
func (l *library) has(buildID string, f *file) bool {
	o := l.packs[buildID]
	if o == nil || f != nil && !f.isSame(o.info) {
		return false
	}
	o.looked = time.Now()
	return true
}

// opened is a pack in a library.
type opened struct {
	*pack.Pack
	image *timeline.Image // image of its symbols; nil unless they are wanted
	bytes int64           // of memory
	used  time.Time

	info   fs.FileInfo // about its file; nil if it has none
	looked time.Time   // when the file was last checked
}

func newLibrary(maxBytes int64) library {
	return library{packs: make(map[string]*opened), max: maxBytes}
}

// use records that a pack is in use. It reports whether the pack is open and its file need not
// be checked again.
func (l *library) use(buildID string, now time.Time) bool {
	p := l.packs[buildID]
	if p == nil {
		return false
	}
	p.used = now
	return now.Sub(p.looked) < lookAgain
}

// uses returns when each pack was last used, by build id.
func (l *library) uses() map[string]time.Time {
	uses := make(map[string]time.Time, len(l.packs))
	for id, p := range l.packs {
		uses[id] = p.used
	}
	return uses
}

// makeRoom makes room for the pack of a build, of size bytes. It drops as many packs as
// necessary, the longest idle first, and returns their number. If there is still no room, it
// drops none. An open pack of that build takes no room, because it will be replaced.
func (l *library) makeRoom(buildID string, size int64, now time.Time) (dropped int, err error) {
	if size > l.max {
		return 0, refuse(TooLarge, fmt.Errorf("the pack is larger than debug_info::max_bytes: %d of %d bytes", size, l.max))
	}
	var idle []*opened
	var replaced int64
	for id, p := range l.packs {
		switch {
		case id == buildID:
			replaced = p.bytes
		case now.Sub(p.used) >= idleAfter:
			idle = append(idle, p)
		}
	}
	slices.SortFunc(idle, func(a, b *opened) int { return a.used.Compare(b.used) })
	left := l.bytes - replaced
	for ; left+size > l.max && dropped < len(idle); dropped++ {
		left -= idle[dropped].bytes
	}
	if left+size > l.max {
		return 0, refuse(NoRoom, errors.New("there is no room for the pack, as all others are in use: raise debug_info::max_bytes"))
	}
	for _, p := range idle[:dropped] {
		delete(l.packs, p.Info().BuildID)
	}
	l.bytes, l.isNew = left+replaced, l.isNew || dropped > 0
	return dropped, nil
}

// add adds a pack, which must have room. It replaces an open pack of that build.
func (l *library) add(p *opened) {
	if old := l.packs[p.Info().BuildID]; old != nil {
		l.bytes -= old.bytes
	}
	l.packs[p.Info().BuildID] = p
	l.bytes, l.isNew = l.bytes+p.bytes, true
}

// keptIn records that a file has the pack of a build.
func (l *library) keptIn(buildID string, info fs.FileInfo) {
	if o := l.packs[buildID]; o != nil {
		o.info = info
	}
}

// list returns the packs, and whether they have changed since the last call.
func (l *library) list() (all []*opened, isNew bool) {
	all = slices.Collect(maps.Values(l.packs))
	isNew, l.isNew = l.isNew, false
	return all, isNew
}
