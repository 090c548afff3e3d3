// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// load is a module from when it is loaded until it is unloaded.
type load struct {
	listed
	layout
	buildID string          // which build it is, empty if it has no build id
	info    symtab.TextInfo // its end is the limit of its symbols
	ends    endRule
	named   bool      // its symbols were read, or it has no code
	err     error     // what is missing from it
	since   time.Time // when its "add" event was read; zero if none was
}

// describe finds out where a module lies and which build it is. It returns nil if the
// module has gone meanwhile.
func (r *roots) describe(is listed, ends endRule) *load {
	l := &load{listed: is, ends: ends}
	if is.addr == 0 && ends == endsWithPage {
		l.named = true
		return l
	}
	var sectionsErr, notesErr error
	l.layout, sectionsErr = r.readLayout(is.name, ends)
	l.buildID, notesErr = r.readBuildID(is.name)
	err := errors.Join(sectionsErr, notesErr)
	switch {
	case (err != nil || l.buildID == "") && !r.isLoaded(is):
		return nil // the notes go first
	case errors.Is(err, fs.ErrNotExist):
		l.err = fmt.Errorf("module frames get no build id and no file ID: %w: check that sysfs is mounted there", err)
	case err != nil:
		l.err = fmt.Errorf("module frames get no build id and no file ID: %w", err)
	}
	if sectionsErr != nil {
		l.layout = layout{text: is.addr, code: []uint64{is.addr}, initial: l.initial}
	} else { // a build id promises offsets, and those count from .text
		l.info.BuildID, l.info.FileID, l.info.Base = l.buildID, buildid.FileID(l.buildID), l.text
	}
	if l.named = len(l.code) == 0 || l.code[0] == 0; l.named {
		return l
	}
	l.info.Start = l.code[0]
	if ends == endsAtNext {
		l.size = cmp.Or(r.readCoreSize(is.name), l.size)
	}
	return l
}

// is reports whether the load is the one that a list shows with a build id (see contract
// 5.2).
func (l *load) is(shown listed, buildID string) bool {
	return buildID != "" && l.buildID == buildID && l.addr == shown.addr
}

// hasCode reports whether the load has an image.
func (l *load) hasCode() bool { return l.info.Start != 0 }

// settle decides for good where the load ends, given where anything else begins.
func (l *load) settle(starts []uint64) {
	if l.hasCode() {
		l.info.End = l.limit(l.size, starts)
	}
}

// starts returns the addresses at which other modules cannot go on.
func (l *load) starts() []uint64 {
	if !l.hasCode() {
		return l.others
	}
	return append(slices.Clip(l.others), l.code[0])
}

// image makes the load's image of its symbols, the last of which begins at an address; 0
// if they were not read.
func (l *load) image(symbols *symtab.Sorter, last uint64) (*timeline.Image, error) {
	info := l.info
	if l.ends == endsWithPage {
		info.End = min(info.End, pageEnd(max(last, l.code[len(l.code)-1])))
	}
	if last != 0 {
		for _, addr := range l.code {
			symbols.Add(addr, 'd', []byte("section")) // only a bound
		}
	}
	text, err := symbols.Build(info)
	if err != nil {
		return nil, err
	}
	return timeline.NewImage(timeline.OriginModule, l.name, text, timeline.Always), nil
}
