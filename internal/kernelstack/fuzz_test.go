// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"testing"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// FuzzWaits applies any sequence of records, of which each byte is one: whatever the kernel, or a loss, does to their order,
// the waits of a thread have a length and do not overlap.
func FuzzWaits(f *testing.F) {
	f.Add([]byte{0x00, 0x10, 0x20, 0x01, 0x11, 0x21})
	f.Add([]byte{0x00, 0x10, 0x50, 0x20, 0x00, 0x10, 0x30, 0x20})
	f.Fuzz(func(t *testing.T, ops []byte) {
		w := newWaits(0)
		ended := make(map[uint32]int64) // by thread: the end of its last wait
		for i, op := range ops {
			r := perfring.Record{CPU: uint32(op >> 3 & 1), TID: 1 + uint32(op&7), Time: int64(i), Stack: []uint64{leaf}}
			switch op >> 4 & 7 {
			case 0:
				r.Type = perfring.TypeSample
			case 1:
				r.Type, r.Switch = perfring.TypeSwitch, perfring.SwitchBlocked
			case 2:
				r.Type, r.Switch = perfring.TypeSwitch, perfring.SwitchIn
			case 3:
				r.Type = perfring.TypeFork
			case 4:
				r.Type = perfring.TypeExit
			case 5:
				w.forget([]perfring.Interval{{From: int64(i), To: int64(i) + int64(op&7)}})
				continue
			case 6:
				w.report(int64(i), func(tid uint32) bool { return tid%2 == 0 })
				continue
			default:
				w.forgetAll()
				continue
			}
			wait, ok := w.note(&r)
			if !ok {
				continue
			}
			if wait.from >= r.Time || wait.from < ended[wait.tid] || wait.tid != r.TID || len(wait.stack) == 0 {
				t.Fatalf("record %d ends the wait %+v; the one before ended at %d", i, wait, ended[wait.tid])
			}
			if wait.reported < wait.from || wait.reported > r.Time {
				t.Fatalf("the wait %+v was reported up to a time outside of it", wait)
			}
			ended[wait.tid] = r.Time
		}
		if w.counts.lost < 0 || w.counts.short < 0 {
			t.Fatalf("counts %+v", w.counts)
		}
	})
}
