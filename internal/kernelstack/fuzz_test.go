// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/procfs"
)

// FuzzWaits applies any sequence of records, one per byte. However the kernel or a loss changes their order,
// a thread's waits have a positive length and do not overlap.
func FuzzWaits(f *testing.F) {
	f.Add([]byte{0x00, 0x10, 0x20, 0x01, 0x11, 0x21})
	f.Add([]byte{0x00, 0x10, 0x50, 0x20, 0x00, 0x10, 0x30, 0x20})
	f.Fuzz(func(t *testing.T, ops []byte) {
		w := newWaits(0, true, endCode{}, new(Message))
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
				w.report(int64(i), func(tid uint32) procfs.Life { return procfs.Life(tid % 4) })
				continue
			default:
				w = newWaits(0, true, endCode{}, new(Message))
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
		if w.counts.Unknown.All() < 0 || w.counts.Short < 0 {
			t.Fatalf("counts %+v", *w.counts)
		}
	})
}

// rivals are cgroups that claim to be the container idA, with the domains that each is in.
var rivals = []struct {
	path    string
	domains []string
}{
	{"/system.slice/docker-" + idA + ".scope", nil},
	{"/machine.slice/libpod-" + idA + ".scope", nil},
	{"/u/user@1.service/a/docker-" + idA + ".scope", []string{"user1"}},
	{"/u/user@1.service/b/docker-" + idA + ".scope", []string{"user1"}},
	{"/u/user@1.service/docker-" + idB + ".scope/docker-" + idA + ".scope", []string{"user1", "B"}},
	{"/u/user@2.service/docker-" + idA + ".scope", []string{"user2"}},
	{"/docker/" + idC + "/docker/" + idA, []string{"C"}},
	{"/docker/" + idC + "/lxc.payload.d/docker/" + idA, []string{"C", "d"}},
}

// FuzzClaims makes, removes and samples cgroups in any order. Each byte does one thing to one cgroup. At any time, a cgroup
// that exists has the id exactly if it is in the outer ones of the domains of each other one that exists. A sample that is
// read when a cgroup is gone has no id that it did not have before.
func FuzzClaims(f *testing.F) {
	f.Add([]byte{0x00, 0x02, 0x22, 0x20, 0x10, 0x22, 0x00, 0x20, 0x22, 0x70, 0x22})
	f.Add([]byte{0x02, 0x04, 0x06, 0x07, 0x24, 0x05, 0x35, 0x01, 0x21, 0x11, 0x22, 0xf2, 0x24})
	f.Fuzz(func(t *testing.T, ops []byte) {
		tree := &claimTree{t.TempDir(), ""}
		c := openClaims(t, tree.mount)
		var exists [8]bool // rivals
		has := func(n int) bool {
			for other, there := range exists {
				if there && other != n && !isOuter(rivals[n].domains, rivals[other].domains) {
					return false
				}
			}
			return exists[n]
		}
		owns := func(n int, at int64) bool {
			c.nextDecision = time.Time{}
			return c.owner(uint64(n+2), at) == in(idA)
		}
		for _, op := range ops[:min(len(ops), 50)] {
			n, sampled := int(op&7), int(op&7^op>>6)
			switch op >> 4 & 3 {
			case 0:
				tree.make(t, rivals[n].path)
				exists[n] = true
				c.note(&perfring.Cgroup{ID: uint64(n + 2), Path: rivals[n].path + strings.Repeat("/sub", int(op>>6))})
			case 1, 2:
				if exists[n] && owns(n, later) != has(n) {
					t.Fatalf("%s has the id: %v, while there are %v", rivals[n].path, !has(n), exists)
				}
			case 3:
				if !exists[n] || !exists[sampled] {
					continue
				}
				at, had := perfring.Monotonic.Now(), has(sampled)
				tree.remove(t, rivals[n].path)
				if owns(sampled, at) && !had {
					t.Fatalf("%s has the id, since %s is gone, while there were %v", rivals[sampled].path, rivals[n].path, exists)
				}
				exists[n] = false
			}
		}
	})
}

// isOuter reports whether domains are the outer ones of others.
func isOuter(domains, others []string) bool {
	return len(domains) < len(others) && slices.Equal(domains, others[:len(domains)])
}
