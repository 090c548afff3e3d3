// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// TestPollingLifetimes: a program was certainly loaded from the first list that shows it to the last.
func TestPollingLifetimes(t *testing.T) {
	a, b := prog(1, 1, 0, 0x1000), prog(2, 2, 0, 0x1000)
	all := newFakes(a)
	r := newUnstarted(t, all)
	at := int64(1000)
	r.state.now = func() int64 { at += ms; return at }
	r.run.lister.now = r.state.now
	r.poll()
	poll := func() (began, ended int64) {
		began = at
		r.state.listAt = time.Time{}
		r.round(t.Context())
		ended = at
		at += 100 * ms
		return began, ended
	}
	const runOn = 6 * ms // code that was unloaded unseen can run on for so long
	_, first := poll()
	assert.LessOrEqual(t, r.image(0x1000).Lifetime.From, first)
	assert.Empty(t, r.nameThen(0x1000, timeline.Instant(first)), "it can have gone since")
	last, _ := poll()
	assert.Equal(t, symbolOf(a, 0), r.nameThen(0x1000, timeline.Interval{From: first + runOn, To: last}))
	assert.Equal(t, 1, count(all.asked, 1), "a known program is not queried again")
	delete(all.loaded, a.ID)
	all.loaded[b.ID] = b
	missed, seen := poll()
	poll()
	assert.Equal(t, symbolOf(a, 0), r.nameThen(0x1000, timeline.Interval{From: first + runOn, To: last}))
	assert.Equal(t, symbolOf(b, 0), r.nameThen(0x1000, timeline.Instant(seen+runOn)))
	for between := last + 6*ms; between < missed; between += ms {
		hit, _ := timeline.NewSnapshot(r.table).At(0x1000, timeline.Instant(between))
		assert.Equal(t, timeline.ReasonUnobserved, hit.Reason)
	}
}

// TestPollingNeedsAList verifies that the error names both missing rights.
func TestPollingNeedsAList(t *testing.T) {
	all := newFakes()
	all.err = bpf.ErrPermission
	r := newUnstarted(t, all)
	r.open = func() (EventSource, error) { return nil, perfring.ErrPermission }
	err := r.Run(t.Context(), func(symcache.Update) { t.Error("there is nothing to publish") })
	require.ErrorIs(t, err, bpf.ErrPermission)
	require.ErrorIs(t, err, perfring.ErrPermission)
}

// TestPollingAfterRecords ends trampolines, which no list of programs shows, and continues with programs.
func TestPollingAfterRecords(t *testing.T) {
	a := prog(1, 1, 0, 0x1000)
	r := newTestSource(t, newFakes(a))
	r.passTime()
	loaded := r.now()
	r.emit(trampoline(loaded, 0x5000, false))
	r.passTime()
	r.Refresh()
	ended := r.table.Certain()
	r.refreshCPUs()
	r.stop()
	r.open = func() (EventSource, error) { return nil, perfring.ErrMemory }
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, r.Run(ctx, func(u symcache.Update) { r.published(u); cancel() }))
	require.ErrorIs(t, r.err, perfring.ErrMemory)
	r.expect(a)
	assert.Nil(t, r.image(0x5000))
	assert.NotEmpty(t, r.nameThen(0x5000, timeline.Interval{From: loaded, To: ended}))
	assert.Equal(t, symbolOf(a, 0), r.nameThen(0x1000, timeline.Interval{From: ended - ms, To: r.table.Certain()}))
}
