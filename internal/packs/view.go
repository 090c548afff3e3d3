// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A View holds the packs of a store at one moment. It is immutable.
type View struct {
	Packs *pack.Set

	// Snapshot returns the symbols of these packs. It is nil unless the store is for a
	// gateway.
	Snapshot func() *timeline.Snapshot

	table *timeline.Table // with the same symbols
}

// noSymbols is the table of a view whose symbols are not wanted.
var noSymbols = timeline.NewTable()

func newView(open []*opened, gateway bool) *View {
	packs := make([]*pack.Pack, 0, len(open))
	images := make([]*timeline.Image, 0, len(open))
	for _, p := range open {
		packs = append(packs, p.Pack)
		images = append(images, p.image)
	}
	v := &View{Packs: pack.NewSet(packs), table: noSymbols}
	if gateway {
		snapshot := timeline.NewPackSnapshot(images...)
		v.Snapshot = func() *timeline.Snapshot { return snapshot }
		v.table = snapshot.Tables()[0]
	}
	return v
}
