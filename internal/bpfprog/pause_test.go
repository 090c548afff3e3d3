// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// TestContract_6_4_NothingIsMissedInAPause has a trampoline, which no list shows, stay through
// a pause, and a program come and go in it.
func TestContract_6_4_NothingIsMissedInAPause(t *testing.T) {
	stays, comes := prog(1, 1, 0, 0x1000), prog(2, 2, 0, 0x2000)
	r := newUnstarted(t, newFakes(stays))
	record := func(records ...perfring.Record) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.batch.Records = append(r.batch.Records, records...)
	}
	isReady := func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.state.ready && r.state.events != nil
	}
	run := func(do func()) {
		ctx, pause := context.WithCancelCause(t.Context())
		ran := make(chan error)
		go func() { ran <- r.Run(ctx, r.published) }()
		require.Eventually(t, isReady, time.Minute, time.Millisecond)
		do()
		pause(symcache.ErrPaused)
		require.NoError(t, <-ran)
	}
	began := int64(0)
	run(func() {
		began = r.now()
		record(trampoline(began, 0x5000, false))
		r.Refresh()
	})
	assert.Zero(t, r.closed.Load())
	came := r.now()
	record(loads(came, comes)...)
	record(unloads(came+ms, comes)...)
	r.passTime()
	run(func() {
		looked := func() bool { return r.refreshed.Load() >= 2 }
		require.Eventually(t, looked, time.Minute, time.Millisecond, "CPUs may have come online")
		r.Refresh()
	})

	after := r.table.Certain()
	assert.False(t, r.table.IsBlind(timeline.Interval{From: began, To: after}))
	assert.NotEmpty(t, r.nameThen(0x5000, timeline.Interval{From: began, To: after}))
	assert.Equal(t, symbolOf(comes, 0), r.nameThen(0x2000, timeline.Instant(came)))

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, r.Run(ended, r.published))
	assert.EqualValues(t, 1, r.closed.Load())
}

// TestContract_6_4_NamesDoNotWaitForAListAfterAPause: records are complete without one.
func TestContract_6_4_NamesDoNotWaitForAListAfterAPause(t *testing.T) {
	stays, comes := prog(1, 1, 0, 0x1000), prog(2, 2, 0, 0x2000)
	all := newFakes(stays)
	r := newTestSource(t, all)
	r.state.ready, r.state.relist, r.state.listAt = false, true, time.Time{} // as if a pause had interrupted a list
	came := r.now()
	r.batch.Records = loads(came, comes)
	listing := make(chan struct{})
	all.onNext = func() { <-listing }
	ctx, cancel := context.WithCancel(t.Context())
	ran, tables := make(chan error, 1), make(chan *timeline.Table, 10)
	go func() { ran <- r.Run(ctx, func(u symcache.Update) { tables <- u.Table }) }()
	select {
	case r.table = <-tables:
		assert.Equal(t, symbolOf(comes, 0), r.nameThen(0x2000, timeline.Instant(came)))
		assert.Equal(t, symbolOf(stays, 0), r.nameThen(0x1000, timeline.Instant(came)))
	case <-time.After(time.Minute):
		t.Error("it waits for the list")
	}
	cancel()
	close(listing)
	require.NoError(t, <-ran)
}

// TestAListThatIsInterruptedDidNotFail: the next run makes it at once.
func TestAListThatIsInterruptedDidNotFail(t *testing.T) {
	a, all := prog(1, 1, 0, 0x1000), newFakes()
	r := newTestSource(t, all)
	all.loaded[1] = a
	at := r.now()
	r.loseRecords(at-ms, at)
	ctx, cancel := context.WithCancel(t.Context())
	all.onNext = cancel
	r.state.listAt = time.Time{}
	_, err := r.Source.round(ctx)
	require.NoError(t, err)
	all.onNext = nil
	r.round(t.Context())
	require.NoError(t, r.err)
	r.expect(a)
}
