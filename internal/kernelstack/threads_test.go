// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// nameSession returns a session, and a function that sets the name of thread 11 in /proc, and the time when it is read.
func nameSession(t *testing.T) (s *session, setName func(name string, now int64)) {
	t.Helper()
	sampler := &Sampler{
		Options: Options{Threads: byCycles, MaxSamples: 100, Procfs: t.TempDir()},
		Send:    func(context.Context, *Message) {},
	}
	dir := filepath.Join(sampler.Options.Procfs, "11")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "task", "11"), 0o755))
	s = sessionOf(t, sampler, nil, time.Now())
	return s, func(name string, now int64) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "comm"), []byte(name+"\n"), 0o600))
		times := []int64{now, now - 2} // after it is read, and before
		s.out.names.threads.now = func() int64 {
			times[0], times[1] = times[1], times[0]
			return times[0]
		}
	}
}

// sampleAt returns a sample of thread 11. Its stack depends on the time, so samples are not
// merged.
func sampleAt(time int64) perfring.Record {
	return perfring.Record{Type: perfring.TypeSample, Time: time, PID: 11, TID: 11, Stack: []uint64{leaf + uint64(time)}}
}

// commAt returns the record of a new name of thread 11, and forkAt that of a new thread 11.
func commAt(time int64, name string) perfring.Record {
	return perfring.Record{Type: perfring.TypeComm, Time: time, PID: 11, TID: 11, Comm: name}
}

func forkAt(time int64, parent uint32) perfring.Record {
	return perfring.Record{Type: perfring.TypeFork, Time: time, PID: 11, TID: 11, Parent: parent}
}

// TestNames gives a session batches of records of thread 11. Its name in /proc may be newer than a sample.
func TestNames(t *testing.T) {
	type read struct {
		name string
		at   int64
	}
	for _, c := range []struct {
		name    string
		first   read // before any batch
		reads   []read
		batches []perfring.Batch
		want    []string
	}{
		{
			"before recording began", read{"bash", 1}, nil,
			[]perfring.Batch{{Records: []perfring.Record{sampleAt(2), commAt(3, "ls"), sampleAt(4)}}},
			[]string{"bash", "ls"},
		},
		{
			"a record of before it was read", read{"ls", 6}, nil,
			[]perfring.Batch{{Records: []perfring.Record{sampleAt(2), commAt(3, "sh"), sampleAt(4), sampleAt(7)}}},
			[]string{"", "sh", "ls"},
		},
		{
			"the record comes in the next batch", read{}, []read{{"ls", 10}},
			[]perfring.Batch{
				{Records: []perfring.Record{sampleAt(2)}},
				{Records: []perfring.Record{sampleAt(3), commAt(4, "ls"), sampleAt(12)}},
			},
			[]string{"", "", "ls"},
		},
		{
			"a new thread of a known one", read{"bash", 1}, nil,
			[]perfring.Batch{{Records: []perfring.Record{forkAt(2, 11), sampleAt(3)}}},
			[]string{"bash"},
		},
		{
			"a new thread of one that is not known", read{"old", 1}, []read{{"new", 10}},
			[]perfring.Batch{
				{Records: []perfring.Record{sampleAt(2), forkAt(3, 5), sampleAt(4)}},
				{Records: []perfring.Record{sampleAt(11)}},
			},
			[]string{"old", "", "new"},
		},
		{
			"the record of a new thread comes after it was read", read{"new", 6}, nil,
			[]perfring.Batch{{Records: []perfring.Record{forkAt(3, 5), sampleAt(4), sampleAt(7)}}},
			[]string{"", "new"},
		},
		{
			"renamed while it was read", read{"old", 5}, nil,
			[]perfring.Batch{{Records: []perfring.Record{commAt(4, "new"), sampleAt(6)}}},
			[]string{"new"},
		},
		{
			"a new thread of the kernel", read{"kworker/1:1", 1}, []read{{"kworker/2:2", 10}},
			[]perfring.Batch{
				{Records: []perfring.Record{
					{Type: perfring.TypeComm, Time: 2, PID: kthreadd, TID: kthreadd, Comm: "kthreadd"}, forkAt(3, kthreadd), sampleAt(4),
				}},
				{Records: []perfring.Record{sampleAt(11)}},
			},
			[]string{"", "kworker/2:2"},
		},
		{
			"a new thread of a process, which the kernel may have named", read{"vhost-5", 1}, []read{{"vhost-9", 10}},
			[]perfring.Batch{
				{Records: []perfring.Record{
					{Type: perfring.TypeComm, Time: 2, PID: 5, TID: 5, Comm: "qemu"},
					{Type: perfring.TypeFork, Time: 3, PID: 5, TID: 11, Parent: 5}, sampleAt(4),
				}},
				{Records: []perfring.Record{sampleAt(11)}},
			},
			[]string{"", "vhost-9"},
		},
		{
			"it is not UTF-8", read{"RenderThread-Göttingen"[:15], 1}, nil,
			[]perfring.Batch{{Records: []perfring.Record{sampleAt(2), commAt(3, "\xff\xffsh"), sampleAt(4)}}},
			[]string{"RenderThread-G\uFFFD", "\uFFFDsh"},
		},
		{
			"records of names were lost", read{"bash", 1}, []read{{"bash", 1}, {"ls", 12}},
			[]perfring.Batch{
				{Records: []perfring.Record{sampleAt(2)}},
				{
					Records: []perfring.Record{sampleAt(3), commAt(5, "sh"), sampleAt(9), sampleAt(11)},
					Names:   perfring.NameBatch{Lost: 1, Blind: []perfring.Interval{{From: 4, To: 10}}},
				},
				{Records: []perfring.Record{sampleAt(13)}},
			},
			[]string{"bash", "bash", "", "", "ls"},
		},
		{
			"a record after a loss", read{"bash", 1}, nil,
			[]perfring.Batch{{
				Records: []perfring.Record{sampleAt(3), commAt(11, "sh"), sampleAt(12)},
				Names:   perfring.NameBatch{Blind: []perfring.Interval{{From: 4, To: 10}}},
			}},
			[]string{"bash", "sh"},
		},
		{
			"the name of the thread that made it was lost", read{}, nil,
			[]perfring.Batch{{
				Records: []perfring.Record{
					{Type: perfring.TypeComm, Time: 2, PID: 5, TID: 5, Comm: "bash"}, forkAt(11, 5), sampleAt(12),
				},
				Names: perfring.NameBatch{Blind: []perfring.Interval{{From: 4, To: 10}}},
			}},
			[]string{""},
		},
		{
			"it was read after a loss of the same batch", read{}, []read{{"bash", 20}, {"unread", 30}},
			[]perfring.Batch{
				{
					Records: []perfring.Record{sampleAt(3), sampleAt(12)},
					Names:   perfring.NameBatch{Blind: []perfring.Interval{{From: 4, To: 10}}},
				},
				{Records: []perfring.Record{sampleAt(21)}},
			},
			[]string{"", "", "bash"},
		},
		{
			"samples were lost", read{"bash", 1}, nil,
			[]perfring.Batch{{
				Records: []perfring.Record{sampleAt(3), sampleAt(12)}, Lost: 1, Blind: []perfring.Interval{{From: 4, To: 10}},
			}},
			[]string{"bash", "bash"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, setName := nameSession(t)
			if c.first.at > 0 {
				setName(c.first.name, c.first.at)
				s.out.names.threads.readAll()
			}
			for i, batch := range c.batches {
				if i < len(c.reads) {
					setName(c.reads[i].name, c.reads[i].at)
				}
				addAll(t, s, batch)
			}
			assert.Equal(t, c.want, threadNames(s))
		})
	}
}

// TestNamesOfWorkers verifies that the name of a worker of the kernel has no workqueue, and that other names stay whole.
func TestNamesOfWorkers(t *testing.T) {
	const worker, process = "69238880", "4194560" // flags, with and without PF_KTHREAD
	for _, c := range []struct{ comm, flags, want string }{
		{"kworker/u8:1-events_unbound", worker, "kworker/u8:1"},
		{"kworker/0:0H+kblockd", worker, "kworker/0:0H"},
		{"kworker/u8:2-ext4-rsv-conversion", worker, "kworker/u8:2"},
		{"kworker/1:0", worker, "kworker/1:0"},
		{"kworker/dying", worker, "kworker/dying"},
		{"kworker/R-ext4-rsv-conversion", worker, "kworker/R-ext4-rsv-conversion"},
		{"kworker/R-mld+mld", worker, "kworker/R-mld+mld"},
		{"jbd2/vda1-8", worker, "jbd2/vda1-8"},
		{"kworker/u8:1-me", process, "kworker/u8:1-me"},
	} {
		t.Run(c.comm, func(t *testing.T) {
			s, setName := nameSession(t)
			setName(c.comm, 1)
			stat := "11 (" + c.comm + ") S 2 0 0 0 -1 " + c.flags + " 0 0"
			require.NoError(t, os.WriteFile(filepath.Join(s.out.names.threads.procfs, "11/stat"), []byte(stat), 0o600))
			assert.Equal(t, c.want, s.out.names.threads.name(11, 2))
		})
	}
}

// TestReadsAreLimited verifies that names that became uncertain are read from /proc at a limited rate.
func TestReadsAreLimited(t *testing.T) {
	s, setName := nameSession(t)
	s.out.names.threads.reads.SetLimit(0)
	s.out.names.threads.reads.SetBurst(2)
	for i, want := range []string{"bash", "bash", ""} {
		at := int64(10 * i)
		setName("bash", at+5)
		s.out.names.threads.name(11, at)
		assert.Equal(t, want, s.out.names.threads.name(11, at+6), "%d losses before", i)
		s.out.names.threads.lose(perfring.Interval{From: at + 7, To: at + 8})
	}
}
