// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"iter"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/index"
)

// Locations is the location table.
type Locations struct {
	table     pprofile.LocationSlice
	byContent index.Index
	isIndexed bool
}

func (l *Locations) open() { l.isIndexed = false }

// Len returns the number of locations.
func (l *Locations) Len() int { return l.table.Len() }

// At returns a location. It panics if there is none with that index.
func (l *Locations) At(i int32) pprofile.Location { return l.table.At(int(i)) }

// Intern moves a location into the table, unless it has an equal one, and returns the index. others are the
// locations that can be equal to it; they must be the same in all calls, and must not change in between.
func (l *Locations) Intern(loc pprofile.Location, others iter.Seq[int32]) (at int32, appended bool) {
	if !l.isIndexed {
		l.isIndexed = true
		l.byContent.Reset(l.byContent.Len()) // one message is like the one before
		for i := range others {
			other := l.At(i)
			l.byContent.Add(hashLocation(other), i, func(pos int32) bool { return l.At(pos).Equal(other) })
		}
	}
	hash := hashLocation(loc)
	if at, ok := l.byContent.Find(hash, func(pos int32) bool { return l.At(pos).Equal(loc) }); ok {
		return at, false
	}
	at = int32(l.table.Len())
	loc.MoveTo(l.table.AppendEmpty())
	l.byContent.AddNew(hash, at)
	return at, true
}

func hashLocation(loc pprofile.Location) uint64 {
	h := index.Mix(index.Mix(0, uint64(loc.MappingIndex())), loc.Address())
	lines := loc.Lines()
	for i := range lines.Len() {
		line := lines.At(i)
		h = index.Mix(index.Mix(index.Mix(h, uint64(line.FunctionIndex())), uint64(line.Line())), uint64(line.Column()))
	}
	indices := loc.AttributeIndices()
	for i := range indices.Len() {
		h = index.Mix(h, uint64(uint32(indices.At(i))))
	}
	return h
}
