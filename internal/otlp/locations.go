// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/index"
)

// Locations is the location table.
type Locations struct {
	table    pprofile.LocationSlice
	interner interner[pprofile.Location]
}

// open lets no original location be found. See [Locations.MakeFindable].
func (l *Locations) open() { l.interner.open(0) }

// Len returns the number of locations.
func (l *Locations) Len() int { return l.table.Len() }

// At returns a location. It panics if there is none with that index.
func (l *Locations) At(i int32) pprofile.Location { return l.table.At(int(i)) }

// MakeFindable lets Intern find a location that came with the message. From then on, it must not change.
func (l *Locations) MakeFindable(i int32) { l.interner.add(l, i) }

// Intern moves a location into the table, unless it can find an equal one there, and returns the index.
func (l *Locations) Intern(loc pprofile.Location) (at int32, appended bool) {
	return l.interner.intern(l, loc, true)
}

func (l *Locations) content(i int32) (loc pprofile.Location, isFindable bool) { return l.At(i), true }
func (l *Locations) has(i int32, loc pprofile.Location) bool                  { return l.At(i).Equal(loc) }

func (l *Locations) append(loc pprofile.Location) int32 {
	loc.MoveTo(l.table.AppendEmpty())
	return int32(l.table.Len() - 1)
}

func (l *Locations) hash(loc pprofile.Location) uint64 {
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
