// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"fmt"
	"math"
	"math/rand"
	"slices"
	"time"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

const (
	ms       = int64(time.Millisecond)
	slotSize = 0x1000
	numSlots = 16
	slots    = uint64(0xffffffffc0000000)
)

// The histories of a world.
const (
	sourceModules = iota
	sourceBPF
	numSources
)

// A world is a kernel in which code is loaded and unloaded at whole milliseconds, with the sources' records
// of it. The field images is the model's own list.
type world struct {
	r       *rand.Rand
	core    *modelImage // nil if its symbols could not be read
	partial bool        // BPF programs could not be listed
	images  []*modelImage
	builds  []build
	history [numSources]*timeline.Builder
	limits  timeline.Limits
	gone    [numSources][]*modelImage // in the order in which they were unloaded
	blind   [numSources][]timeline.Interval
	certain [numSources]int64
	now     int64
	first   int64   // when the sources began
	times   []int64 // at which something happened
	nextID  uint32
	serial  int                   // of samples
	packs   map[string]*modelPack // by build id
	traced  []modelTraced         // functions that can have trampolines
	traces  bool                  // there are many trampolines

	guessed bool // the sender of the message may be guessing (section 2.6)
	located bool // the kernel hides its symbols, and was located (section 10.5)
}

func newWorld(seed int64) *world {
	r := rand.New(rand.NewSource(seed))
	w := &world{r: r, now: int64(time.Hour) + int64(r.Intn(1000))*ms, nextID: 1}
	if r.Intn(20) != 0 {
		w.core = newCore(r)
	}
	w.limits = timeline.Limits{TTL: time.Duration(1+r.Intn(60)) * time.Second, MaxEntries: 1 + r.Intn(40)}
	for i := range 3 {
		b := build{name: fmt.Sprintf("mod%d", i), id: hexID(r), seed: r.Int63()}
		if r.Intn(3) == 0 {
			b.id = ""
			b.baseless = r.Intn(2) == 0
		}
		if r.Intn(4) == 0 {
			b.below = 0x100
		}
		w.builds = append(w.builds, b)
	}
	// Two builds of one name: a module that was compiled anew.
	w.builds = append(w.builds, build{name: "mod0", id: hexID(r), seed: r.Int63()})
	w.first = w.now
	for source := range numSources {
		w.history[source] = timeline.NewBuilder(w.limits)
	}
	w.traces = r.Intn(3) == 0
	w.traceSome()
	for source := range numSources {
		w.recordBlind(source, timeline.Interval{From: math.MinInt64, To: w.first})
		for range r.Intn(5) {
			w.loadSomething(source, w.first)
		}
		w.setCertain(source, w.first)
	}
	w.partial = r.Intn(4) == 0
	w.history[sourceBPF].SetPartial(w.partial)
	for range 10 + r.Intn(40) {
		w.now += int64(1+r.Intn([]int{8, 60, 600, 6000}[r.Intn(4)])) * ms
		w.step(r.Intn(numSources))
		w.times = append(w.times, w.now)
	}
	if r.Intn(2) == 0 { // the rings were last emptied a while ago
		w.now += int64(r.Intn(40)) * ms
	}
	return w
}

// step makes something happen now.
func (w *world) step(source int) {
	event := w.now
	if w.r.Intn(4) == 0 { // its record comes late
		event -= int64(w.r.Intn(300)) * ms
		event = max(event, w.first)
		w.times = append(w.times, event)
	}
	switch w.r.Intn(10) {
	case 0, 1, 2:
		w.loadSomething(source, event)
	case 3, 4:
		w.unloadSomething(source, event)
	case 5:
		w.reload(source, event)
	case 6:
		w.lost(source)
	case 7:
		for range 2 + w.r.Intn(3) { // a source that polls
			w.lost(source)
		}
	case 8:
		w.describe()
	case 9:
		w.evict(source)
	}
	if w.r.Intn(8) != 0 {
		w.setCertain(source, w.now)
	}
}

func (w *world) setCertain(source int, until int64) {
	w.certain[source] = until
	w.history[source].SetCertain(until)
}

func (w *world) recordBlind(source int, i timeline.Interval) {
	w.blind[source] = append(w.blind[source], i)
	w.history[source].AddBlind(i)
}

// lost records a blind interval. An image that is missing after it lived until its beginning; one that is new
// after it lives from its end (section 5.2 of the contract).
func (w *world) lost(source int) {
	i := timeline.Interval{From: w.now, To: w.now + int64(1+w.r.Intn(250))*ms}
	w.setCertain(source, i.From)
	w.times = append(w.times, i.From, i.To)
	for range w.r.Intn(3) {
		w.unloadSomething(source, i.From)
	}
	w.now = i.To
	w.recordBlind(source, i)
	for range w.r.Intn(3) {
		w.loadSomething(source, i.To)
	}
	w.setCertain(source, i.To)
}

// live returns the images of a source that were not unloaded.
func (w *world) live(source int) (live []*modelImage) {
	for _, m := range w.images {
		if m.source == source && m.life.To == timeline.Forever {
			live = append(live, m)
		}
	}
	return live
}

func (w *world) unloadSomething(source int, at int64) {
	if live := w.live(source); len(live) > 0 {
		w.unload(live[w.r.Intn(len(live))], at)
	}
}

// unload records that an image was unloaded.
func (w *world) unload(m *modelImage, at int64) {
	h := w.history[m.source]
	h.Unload(h.At(m.start), at)
	m.life.To = max(at, m.life.From+1) // it lived at least for the instant of its load
	w.gone[m.source] = append(w.gone[m.source], m)
	w.forget(m.source, math.MinInt64)
}

// reload unloads an image and loads the same again, at once or later.
func (w *world) reload(source int, at int64) {
	live := w.live(source)
	if len(live) == 0 {
		return
	}
	m := live[w.r.Intn(len(live))]
	w.unload(m, at)
	switch {
	case m.isText():
		start := m.start
		if w.r.Intn(3) == 0 {
			start = w.slot()
		}
		i := slices.IndexFunc(w.builds, func(b build) bool { return b.name == m.Name() && b.id == m.BuildID() })
		gap := int64(w.r.Intn(8)) * ms
		if m.BuildID() == "" {
			gap += ms // nothing says that these two are the same
		}
		w.load(source, w.builds[i].load(start), at+gap)
	case m.Program != nil:
		again := *m
		w.load(source, &again, at+int64(w.r.Intn(8))*ms)
	}
}

// describe adds the program of a loaded function that has only a name.
func (w *world) describe() {
	for _, m := range w.live(sourceBPF) {
		if m.Origin == timeline.OriginBPF && m.Program == nil && m.Name() != "" {
			m.describe(w.r, w.id())
			was := w.history[sourceBPF].At(m.start)
			w.history[sourceBPF].Replace(was, m.WithLifetime(was.Lifetime))
			return
		}
	}
}

func (w *world) id() uint32 {
	w.nextID++
	return w.nextID
}

// evict forgets images that were unloaded longer ago than the TTL.
func (w *world) evict(source int) {
	w.history[source].Evict(w.now)
	w.forget(source, w.now-int64(w.limits.TTL))
}

// forget drops images that were unloaded before an instant, or exceed the limit. Both leave blind time.
func (w *world) forget(source int, oldest int64) {
	gone := w.gone[source]
	slices.SortStableFunc(gone, func(a, b *modelImage) int {
		switch {
		case a.life.To < b.life.To:
			return -1
		case a.life.To > b.life.To:
			return 1
		}
		return 0
	})
	for len(gone) > w.limits.MaxEntries || len(gone) > 0 && gone[0].life.To < oldest {
		w.blind[source] = append(w.blind[source], timeline.Interval{From: math.MinInt64, To: gone[0].life.To})
		i := slices.Index(w.images, gone[0])
		w.images = slices.Delete(w.images, i, i+1)
		gone = gone[1:]
	}
	w.gone[source] = gone
}
