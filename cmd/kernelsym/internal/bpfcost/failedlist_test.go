// SPDX-License-Identifier: Apache-2.0

package bpfcost

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/bpf"
)

// moody is a kernel that sometimes refuses to list programs.
type moody struct {
	programs
	err error
}

func (m *moody) Next(after uint32) (uint32, error) {
	if m.err != nil {
		return 0, m.err
	}
	return m.programs.Next(after)
}

// TestCountAfterFailedLists verifies that there is no kernel count for a window if the count at its
// start or at its end is unknown. Later there is. Each batch covers a second with ten runs.
func TestCountAfterFailedLists(t *testing.T) {
	type adds func(refused bool) (runs uint64) // 0 if unknown
	for _, tt := range []struct {
		name     string
		atStart  bool // the first list fails
		before   func(v *View, kernel *moody, add adds)
		all, two []uint64 // runs shown after that, in all batches and in the last two
	}{
		{"at the start", true, func(*View, *moody, adds) {}, []uint64{0, 10, 20}, []uint64{0, 10, 20}},
		{"later", false, func(_ *View, _ *moody, add adds) {
			add(false)
			assert.Zero(t, add(true))
		}, []uint64{30, 40, 50}, []uint64{20, 10, 20}},
		{"in a pause", false, func(v *View, kernel *moody, add adds) {
			add(false)
			v.Skip()
			kernel.err = bpf.ErrPermission
			v.Skip()
		}, []uint64{0, 10, 20}, []uint64{0, 10, 20}},
		{"before a pause", false, func(v *View, kernel *moody, add adds) {
			add(false)
			assert.Zero(t, add(true))
			kernel.err = nil
			v.Skip()
		}, []uint64{10, 20, 30}, []uint64{10, 20, 20}},
	} {
		for length, want := range map[time.Duration][]uint64{0: tt.all, 2 * time.Second: tt.two} {
			kernel := &moody{programs: programs{1: {}}}
			r := newRegistry(t, t.TempDir(), kernel)
			r.counting = nothingToClose{}
			if tt.atStart {
				kernel.err = bpf.ErrPermission
			}
			v := NewView(r, length)
			second := int64(100)
			add := func(refused bool) uint64 {
				second++
				kernel.programs[1] = bpf.Program{Stats: bpf.Stats{Runs: kernel.programs[1].Stats.Runs + 10}}
				kernel.err = nil
				if refused {
					kernel.err = bpf.ErrPermission
				}
				v.Add(batchOf(t, second, stack{a}))
				if c := v.sources.counted(1); c != nil {
					return c.Runs
				}
				return 0
			}
			tt.before(v, kernel, add)
			var got []uint64
			for range want {
				got = append(got, add(false))
			}
			assert.Equal(t, want, got, "%s, %s", tt.name, length)
			assert.Less(t, v.sources.To.At.Sub(v.sources.From.At), time.Hour, tt.name)
		}
	}
}
