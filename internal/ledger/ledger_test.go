// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/ledger"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/timeline/timelinetest"
)

const ms = int64(time.Millisecond)

// The addresses of the images in these tests. An image that a list covers has a known program.
const (
	addrA = 0x1000 * (iota + 1)
	addrB
	addrC
)

// newLedger returns a ledger whose first list has shown nothing, at 100 ms.
func newLedger() *ledger.Ledger {
	l := ledger.New(timeline.Limits{TTL: time.Hour, MaxEntries: 100})
	l.Missed(timeline.Interval{From: math.MinInt64, To: 90 * ms})
	l.BeginList()
	l.EndList(listOf(95*ms, 100*ms))
	l.Complete(100 * ms)
	return l
}

// function returns a function of a program, loaded since an instant.
func function(name string, start uint64, id uint32, since int64) *timeline.Image {
	m := timeline.NewFunction(timeline.OriginBPF, name, start, 0x100, since)
	if id != 0 {
		m = m.WithProgram(&timeline.Program{ID: id, Since: since}, nil)
	}
	return m
}

// listOf returns a list that shows the programs with some ids.
func listOf(began, read int64, ids ...uint32) ledger.List {
	return ledger.List{
		Began: began, Read: read,
		Shows:  func(m *timeline.Image) bool { return m.Program != nil && slices.Contains(ids, m.Program.ID) },
		Covers: func(m *timeline.Image) bool { return m.Program != nil },
	}
}

// nameAt returns the name of an address at an instant, or why it has none.
func nameAt(l *ledger.Ledger, addr uint64, at int64) string {
	hit, _ := timeline.NewSnapshot(l.Table()).At(addr, timeline.Instant(at))
	if hit.Image == nil {
		return hit.Reason.String()
	}
	return hit.Image.Name()
}

// TestCounts verifies that changes are counted, and that nothing is certain after a loss that no list has settled.
func TestCounts(t *testing.T) {
	l := newLedger()
	l.Loaded(function("a", addrA, 1, 110*ms))
	l.Loaded(function("b", addrB, 2, 120*ms))
	l.Missed(timeline.Interval{From: 180 * ms, To: 220 * ms})
	l.Complete(220 * ms)
	assert.Equal(t, 180*ms, l.Certain())
	l.BeginList()
	require.True(t, l.EndList(listOf(230*ms, 240*ms, 1)))
	l.Complete(300 * ms)
	assert.Equal(t, 300*ms, l.Certain())
	assert.Equal(t, ledger.Counts{Loaded: 2, Unloaded: 1}, l.TakeCounts())
	assert.Zero(t, l.TakeCounts())
}

// TestUnloadAfterALoss verifies that the event of an unload, after a loss, ends the image when the loss began: it may
// be about another one that was loaded in its place.
func TestUnloadAfterALoss(t *testing.T) {
	l := newLedger()
	l.Loaded(function("a", addrA, 1, 110*ms))
	l.Complete(200 * ms)
	l.Missed(timeline.Interval{From: 180 * ms, To: 220 * ms})
	assert.True(t, l.Unloaded(addrA, 250*ms))
	assert.False(t, l.Unloaded(addrA, 260*ms), "it is not loaded any more")
	l.BeginList()
	require.True(t, l.EndList(listOf(270*ms, 280*ms)))
	l.Complete(300 * ms)
	assert.Equal(t, "a", nameAt(l, addrA, 170*ms))
	assert.Equal(t, "unobserved", nameAt(l, addrA, 190*ms))
	assert.True(t, l.WasUnloaded(addrA, 260*ms))
	assert.False(t, l.WasUnloaded(addrA, 261*ms))
	assert.True(t, l.AnyUnloaded(260*ms))
	assert.False(t, l.AnyUnloaded(261*ms))
	l.Complete(2000 * ms)
	assert.False(t, l.WasUnloaded(addrA, 0), "a list of now cannot show it")
}

// TestUnloadOfSomethingElse verifies that an image stays if an event is not about its start, or older than it.
func TestUnloadOfSomethingElse(t *testing.T) {
	l := newLedger()
	l.Loaded(function("a", addrA, 1, 110*ms))
	assert.False(t, l.Unloaded(addrA+0x10, 120*ms))
	assert.False(t, l.Unloaded(addrA, 105*ms))
	assert.NotNil(t, l.At(addrA))
	assert.True(t, l.IsFree(addrB, addrB+1))
	assert.Len(t, l.Images(), 1)
}

// TestLossWhileAListIsRead verifies that a list settles a loss only if no event was lost in the meantime that may have
// been part of it.
func TestLossWhileAListIsRead(t *testing.T) {
	for _, c := range []struct {
		name     string
		missed   timeline.Interval
		settles  bool
		leftFrom int64
	}{
		{"of the same time", timeline.Interval{From: 210 * ms, To: 235 * ms}, false, 180 * ms},
		{"later", timeline.Interval{From: 225 * ms, To: 235 * ms}, true, 225 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLedger()
			l.Missed(timeline.Interval{From: 180 * ms, To: 220 * ms})
			l.BeginList()
			l.Missed(c.missed)
			assert.Equal(t, c.settles, l.EndList(listOf(222*ms, 240*ms)))
			assert.Equal(t, c.leftFrom, l.Loss().From)
			l.BeginList()
			assert.True(t, l.EndList(listOf(250*ms, 260*ms)))
			assert.True(t, l.Loss().IsEmpty())
		})
	}
}

// TestAbortedList verifies that a list which was not read settles nothing.
func TestAbortedList(t *testing.T) {
	l := newLedger()
	l.Missed(timeline.Interval{From: 180 * ms, To: 220 * ms})
	l.BeginList()
	l.Missed(timeline.Interval{From: 230 * ms, To: 240 * ms})
	l.AbortList()
	assert.Equal(t, timeline.Interval{From: 180 * ms, To: 240 * ms}, l.Loss())
}

// TestNoList verifies that, without lists, a loss ends everything that was loaded before.
func TestNoList(t *testing.T) {
	l := newLedger()
	l.Loaded(function("a", addrA, 1, 110*ms))
	l.Missed(timeline.Interval{From: 180 * ms, To: 220 * ms})
	l.Loaded(function("b", addrB, 2, 225*ms))
	l.BeginList()
	require.True(t, l.EndList(ledger.List{Began: 230 * ms, Read: 230 * ms}))
	l.Complete(300 * ms)
	assert.Equal(t, "a", nameAt(l, addrA, 150*ms))
	assert.Equal(t, "unresolved", nameAt(l, addrA, 290*ms))
	assert.Equal(t, "b", nameAt(l, addrB, 290*ms))
}

// TestLossIsReportedAgain verifies that a loss which a list has settled needs no other list, and takes nothing back.
func TestLossIsReportedAgain(t *testing.T) {
	l := newLedger()
	loss := timeline.Interval{From: 180 * ms, To: 220 * ms}
	l.Missed(loss)
	l.BeginList()
	require.True(t, l.EndList(listOf(230*ms, 240*ms, 1)))
	a := function("", addrA, 0, 250*ms)
	l.Loaded(a)
	l.Learn(a, function("a", addrA, 1, 250*ms), 260*ms)
	l.Missed(loss)
	assert.True(t, l.Loss().IsEmpty())
	assert.Equal(t, "a", l.At(addrA).Name())
}

// TestMissedTakesBack verifies that a program which was learned from events around a loss is dropped when the loss
// becomes known, and that the image ends where it began.
func TestMissedTakesBack(t *testing.T) {
	for _, c := range []struct {
		name    string
		learned int64
		stays   bool
	}{
		{"after the loss began", 190 * ms, false},
		{"before it", 170 * ms, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLedger()
			m := function("a", addrA, 0, 110*ms)
			l.Loaded(m)
			l.Learn(m, m.WithProgram(&timeline.Program{ID: 1, Since: c.learned}, nil), c.learned)
			l.Complete(200 * ms)
			l.Missed(timeline.Interval{From: 180 * ms, To: 195 * ms})
			assert.Equal(t, c.stays, l.At(addrA) != nil)
			assert.Equal(t, "a", nameAt(l, addrA, 150*ms))
		})
	}
}

// TestLimit verifies that nothing is certain after the limit, however many events arrive.
func TestLimit(t *testing.T) {
	l := newLedger()
	l.Complete(200 * ms)
	l.Limit(150 * ms)
	assert.Equal(t, 150*ms, l.Certain())
	l.Complete(220 * ms)
	assert.Equal(t, 150*ms, l.Certain())
	l.Limit(math.MaxInt64)
	l.Complete(230 * ms)
	assert.Equal(t, 230*ms, l.Certain())
}

// TestLimitOfEarlierUnloads verifies that the limit also applies to images that were unloaded before it was known: a
// record that is missing after it may have been of their unload.
func TestLimitOfEarlierUnloads(t *testing.T) {
	l := newLedger()
	l.Loaded(function("a", addrA, 1, 110*ms))
	l.Complete(200 * ms)
	l.Loaded(function("b", addrA, 2, 210*ms)) // a was unloaded, and no record said when
	l.Complete(220 * ms)
	l.Limit(150 * ms)
	assert.Equal(t, "a", nameAt(l, addrA, 140*ms))
	assert.Equal(t, "unobserved", nameAt(l, addrA, 180*ms))
	assert.Equal(t, "unobserved", nameAt(l, addrA, 215*ms))
	l.Limit(math.MaxInt64)
	l.Complete(230 * ms)
	assert.Equal(t, "a", nameAt(l, addrA, 180*ms))
}

// TestTableIsOfAll verifies that a table includes everything that the source knows besides lifetimes.
func TestTableIsOfAll(t *testing.T) {
	l := newLedger()
	assert.False(t, l.Table().IsPartial())
	l.SetPartial(true)
	assert.True(t, l.Table().IsPartial())
	text := timelinetest.NewImage(t, timelinetest.Text{Start: addrA, End: addrB}, timelinetest.Symbol{Name: "traced"})
	hit := timeline.Hit{Image: text, Symbol: text.Lookup(addrA)}
	const key timeline.TrampolineKey = 1<<32 | 1<<31 | 1
	trampoline := timeline.NewFunction(timeline.OriginTrampoline, fmt.Sprintf("bpf_trampoline_%d", key), addrC, 0x100, 0)
	assert.False(t, timeline.NewSnapshot(l.Table()).IsTrampolineOf(trampoline, hit))
	l.SetTraced(map[timeline.TrampolineKey]timeline.TracedFunction{key: {Image: timeline.KernelName, Name: "traced"}})
	assert.True(t, l.Changed())
	assert.True(t, timeline.NewSnapshot(l.Table()).IsTrampolineOf(trampoline, hit))
}

// TestEviction verifies that the time before the end of an evicted lifetime becomes blind.
func TestEviction(t *testing.T) {
	l := newLedger()
	l.Loaded(function("a", addrA, 1, 110*ms))
	l.Unloaded(addrA, 120*ms)
	l.Complete(200 * ms)
	_ = l.Table()
	assert.False(t, l.Changed())
	l.Evict(200 * ms)
	assert.False(t, l.Changed())
	l.Evict(121*ms + int64(time.Hour))
	assert.True(t, l.Changed())
	assert.Equal(t, "unobserved", nameAt(l, addrA, 115*ms))
	assert.Equal(t, "unresolved", nameAt(l, addrA, 125*ms))
}
