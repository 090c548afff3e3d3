// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/realtime"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// firstSample is the Unix time of the first sample of a message, in nanoseconds; the
// last is five seconds later.
const firstSample = int64(1_700_000_000_000_000_000)

// Functions come and go at the same addresses all the time.
const (
	places     = 600
	firstPlace = uint64(0xffffffffc1000000)
	placeSize  = 0x100
)

// knownWithHistory returns the sources of a kernel in which functions come and go. The history is
// as full as it is by default, and each place had several owners while the samples of a message
// were taken.
func knownWithHistory(core *timeline.Image) rewrite.Sources {
	const entries = 1 << 16
	functions := timeline.NewBuilder(timeline.Limits{TTL: time.Hour, MaxEntries: entries})
	const perPlace = entries/places + 1
	life := int64(5*time.Second) / 4
	at := firstSample + int64(5*time.Second) - perPlace*life
	for n := range perPlace {
		for place := range uint64(places) {
			f := timeline.NewFunction(timeline.OriginBPF, fmt.Sprintf("function_%d_%d", place, n%16),
				firstPlace+place*placeSize, placeSize, at+int64(place)*1000)
			functions.Load(f)
			functions.Unload(f, at+life+int64(place)*1000)
		}
		at += life
	}
	functions.Evict(firstSample + int64(6*time.Second))
	functions.SetCertain(firstSample + int64(6*time.Second))
	snapshot := timeline.NewSnapshot(timeline.NewTable(core), functions.Table())
	return rewrite.Sources{
		Snapshot: func() *timeline.Snapshot { return snapshot },
		Clock:    realtime.Fixed(0),
		Now:      firstSample + int64(6*time.Second),
	}
}

// reuse moves one in n of the kernel's locations to places that have had several owners.
func reuse(r *rand.Rand, pd pprofile.Profiles, n int) {
	locations := pd.Dictionary().LocationTable()
	for i := range locations.Len() {
		if loc := locations.At(i); loc.Address()>>63 != 0 && r.IntN(n) == 0 {
			loc.SetAddress(firstPlace + r.Uint64N(places)*placeSize + 8 + r.Uint64N(placeSize-8))
		}
	}
}
