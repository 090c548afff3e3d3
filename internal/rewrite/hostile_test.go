// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/realtime"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// TestMemoryThatIsKept verifies what a message which took more than 64 MiB leaves behind: at most 256 MiB, and less once
// other messages have followed (contract 6.1).
func TestMemoryThatIsKept(t *testing.T) {
	needTime(t)
	heap := func() uint64 {
		var is runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&is)
		return is.HeapAlloc
	}
	known := knownAt(t, manyOwners(2))
	r := rewrite.New(withHistory)
	before := heap()
	func() {
		m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8})
		indices := m.Profiles.Dictionary().StackTable().At(int(m.LastSample().StackIndex())).LocationIndices()
		deep := make([]int32, 10_000_000)
		for i := range deep {
			deep[i] = indices.At(0)
		}
		indices.FromRaw(deep)
		timed(m, owned(0), owned(1))
		assert.Greater(t, allocated(func() { r.Rewrite(m.Profiles, known) }), uint64(64<<20))
	}()
	assert.Less(t, heap(), before+256<<20)
	small := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: slot + 8})
	for range 17 {
		r.Rewrite(small.Profiles, known)
	}
	assert.Less(t, heap(), before+64<<20)
	runtime.KeepAlive(r)
}

// TestHostileMessages: a message allocates memory in proportion to its size, whatever its shape. `make bench`
// measures the time, and TestModelHostile of internal/test/contract checks the output.
func TestHostileMessages(t *testing.T) {
	n := rewritetest.Rounds(20_000)
	addresses := [3]uint64{text + offA + 1, text + offB + 1, text + offC}
	known := rewrite.Sources{Snapshot: fixed(testSnapshot(t)), Clock: realtime.Fixed(bootUnix), Now: nowBoot}
	for _, shape := range rewritetest.HostileShapes {
		t.Run(shape.Name, func(t *testing.T) {
			opts := withHistory
			opts.All, opts.Label, opts.IsForeign = true, true, isOther
			pd := shape.New(n, addresses)
			wire := uint64(len(marshal(t, pd)))
			began := time.Now()
			got := allocated(func() { rewrite.New(opts).Rewrite(pd, known) })
			t.Logf("%d bytes made it allocate %.1f times as much, in %v", wire, float64(got)/float64(wire), time.Since(began))
			assert.Less(t, got, 1<<20+120*wire)

			pd = shape.New(4*n, addresses)
			assert.Less(t, allocated(func() { rewrite.New(opts).Rewrite(pd, known) }), 1<<20+6*got, "four times as large")
		})
	}
}
