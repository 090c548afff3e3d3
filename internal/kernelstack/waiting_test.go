// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/procfs"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// waitSession returns a session that samples what threads wait for, and the messages that it sends. Waits of at least 10 ns
// are reported.
func waitSession(t *testing.T) (s *session, sent *[]*Message) {
	t.Helper()
	sent = new([]*Message)
	sampler := &Sampler{
		Options: Options{
			Threads: Waiting{Threshold: 10, MaxSwitches: 1000}, MaxSamples: 100, Interval: time.Hour, Procfs: t.TempDir(),
		},
		Send: func(_ context.Context, m *Message) { *sent = append(*sent, m) },
	}
	for tid, state := range map[string]string{"1": "S", "2": "S", "3": "D", "4": "S", "5": "S", "7": "S", "8": "S", "9": "Z"} {
		writeStat(t, filepath.Join(sampler.Options.Procfs, tid), state, goesOn)
	}
	require.NoError(t, os.MkdirAll(filepath.Join(sampler.Options.Procfs, "self", "ns"), 0o755)) // without PID namespaces
	return sessionOf(t, sampler, nil, time.Now()), sent
}

// The flags of threads in /proc.
const goesOn, isEnding = 0x400100, 0x400104

// writeStat writes the file of a thread's state and flags in its directory in /proc.
func writeStat(t *testing.T, dir, state string, flags int) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "stat"), fmt.Appendf(nil, "1 (x) %s 1 1 1 0 -1 %d 0\n", state, flags), 0o600))
}

// The records of a switch, of thread tid of process 1 on a CPU.

func leaves(cpu, tid uint32, at int64, how perfring.Switch) []perfring.Record {
	return []perfring.Record{
		{Type: perfring.TypeSample, Time: at - 1, CPU: cpu, PID: 1, TID: tid, Stack: []uint64{leaf + uint64(tid), caller}},
		{Type: perfring.TypeSwitch, Time: at, CPU: cpu, PID: 1, TID: tid, Switch: how},
	}
}

func blocks(cpu, tid uint32, at int64) []perfring.Record {
	return leaves(cpu, tid, at, perfring.SwitchBlocked)
}

func runs(cpu, tid uint32, at int64) []perfring.Record {
	return []perfring.Record{{Type: perfring.TypeSwitch, Time: at, CPU: cpu, PID: 1, TID: tid, Switch: perfring.SwitchIn}}
}

// about returns a record about thread 7.
func about(typ perfring.Type, at int64) []perfring.Record {
	return []perfring.Record{{Type: typ, Time: at, PID: 1, TID: 7}}
}

// sure returns a complete batch of records.
func sure(records ...[]perfring.Record) perfring.Batch {
	b := perfring.Batch{Certain: 1 << 40, Looked: 1 << 40}
	for _, r := range records {
		b.Records = append(b.Records, r...)
	}
	return b
}

// waitCounts are the waits that messages leave out.
type waitCounts struct {
	short   int
	lost    Unknown
	noStack int
}

// sentWait is a sample of a message about waits.
type sentWait struct {
	tid, waited, at int64
	how             string
}

// waitsIn returns the samples of messages, with the session's offset taken from their times.
func waitsIn(t *testing.T, s *session, sent []*Message) (waits []sentWait) {
	t.Helper()
	for _, m := range sent {
		for _, pd := range m.Profiles {
			checkSent(t, pd)
			d := pd.Dictionary()
			for _, rp := range pd.ResourceProfiles().All() {
				for _, sample := range rp.ScopeProfiles().At(0).Profiles().At(0).Samples().All() {
					require.Equal(t, []int{1, 1}, []int{sample.Values().Len(), sample.TimestampsUnixNano().Len()})
					attributes, err := pprofile.FromAttributeIndices(d.AttributeTable(), sample, d)
					require.NoError(t, err)
					raw := attributes.AsRaw()
					waits = append(waits, sentWait{
						raw["thread.id"].(int64), sample.Values().At(0), int64(sample.TimestampsUnixNano().At(0)) - s.out.offset,
						raw["process.context_switch.type"].(string),
					})
				}
			}
		}
	}
	return waits
}

// TestWaits feeds a session records that cannot be produced at will, and checks what it reports and counts.
func TestWaits(t *testing.T) {
	for _, c := range []struct {
		name    string
		batches []perfring.Batch
		want    []sentWait
		counts  waitCounts
	}{
		{
			name: "blocked, and preempted", batches: []perfring.Batch{sure(
				blocks(0, 7, 100), runs(0, 8, 101), leaves(0, 8, 120, perfring.SwitchRunnable), runs(0, 7, 121), runs(1, 8, 150),
			)},
			want: []sentWait{{7, 21, 121, "voluntary"}, {8, 30, 150, "involuntary"}},
		},
		{
			name:    "shorter than the threshold",
			batches: []perfring.Batch{sure(blocks(0, 7, 100), runs(0, 7, 109), blocks(0, 7, 200), runs(0, 7, 210))},
			want:    []sentWait{{7, 10, 210, "voluntary"}}, counts: waitCounts{short: 1},
		},
		{
			name: "the idle task, and threads without a number", batches: []perfring.Batch{sure(
				blocks(0, 0, 100), runs(0, 0, 200), blocks(1, perfring.NoTask, 100), runs(0, perfring.NoTask, 200),
			)},
		},
		{
			name: "threads that waited before the beginning", batches: []perfring.Batch{sure(runs(0, 7, 100))},
		},
		{
			name: "the sample is of another thread", batches: []perfring.Batch{sure(
				blocks(0, 8, 90)[:1], blocks(0, 7, 100)[1:], runs(0, 7, 200),
			)},
			counts: waitCounts{lost: Unknown{Records: 1}},
		},
		{
			name: "no sample", batches: []perfring.Batch{sure(runs(0, 7, 90), blocks(0, 7, 100)[1:], runs(0, 7, 200))},
			counts: waitCounts{lost: Unknown{Records: 1}},
		},
		{
			name: "the sample is of another CPU", batches: []perfring.Batch{sure(
				runs(0, 7, 80), blocks(1, 7, 90)[:1], blocks(0, 7, 100)[1:], runs(0, 7, 200),
			)},
			counts: waitCounts{lost: Unknown{Records: 1}},
		},
		{
			name: "recording began after its sample", batches: []perfring.Batch{sure(
				blocks(0, 7, 100)[1:], runs(0, 7, 200), blocks(0, 7, 300), runs(0, 7, 400),
			)},
			want: []sentWait{{7, 100, 400, "voluntary"}},
		},
		{
			name: "its return and the first sample of another CPU are lost", batches: []perfring.Batch{sure(
				blocks(0, 7, 100), blocks(1, 7, 200)[1:], runs(1, 7, 300),
			)},
			counts: waitCounts{lost: Unknown{NoReturn: 1}},
		},
		{
			name: "no stack", batches: []perfring.Batch{sure(
				[]perfring.Record{{Type: perfring.TypeSample, TID: 7}, {Type: perfring.TypeSwitch, TID: 7, Switch: perfring.SwitchBlocked}},
				runs(0, 7, 200),
			)},
			counts: waitCounts{noStack: 1},
		},
		{
			name:    "it left twice",
			batches: []perfring.Batch{sure(blocks(0, 7, 100), blocks(0, 7, 200), runs(0, 7, 300))},
			want:    []sentWait{{7, 100, 300, "voluntary"}}, counts: waitCounts{lost: Unknown{NoReturn: 1}},
		},
		{
			name: "it left twice, the second time without a sample", batches: []perfring.Batch{sure(blocks(0, 7, 100), blocks(0, 7, 200)[1:], runs(0, 7, 300))},
			counts: waitCounts{lost: Unknown{NoReturn: 1, Records: 1}},
		},
		{
			name: "its return is lost", batches: []perfring.Batch{
				{
					Records: sure(blocks(0, 7, 100), blocks(0, 7, 300), runs(0, 7, 400)).Records, Certain: 1000, Looked: 1000,
					Lost: 1, Blind: []perfring.Interval{{From: 140, To: 200, Lost: true}},
				},
			},
			want: []sentWait{{7, 100, 400, "voluntary"}}, counts: waitCounts{lost: Unknown{Records: 1}},
		},
		{
			name: "its return is lost, and so is its second wait", batches: []perfring.Batch{
				{
					Records: sure(blocks(0, 7, 100), blocks(0, 7, 180), runs(0, 7, 400)).Records, Certain: 1000, Looked: 1000,
					Lost: 1, Blind: []perfring.Interval{{From: 140, To: 200, Lost: true}},
				},
			},
			counts: waitCounts{lost: Unknown{Records: 2}},
		},
		{
			name: "it exits, and its number is reused", batches: []perfring.Batch{sure(
				about(perfring.TypeExit, 90), blocks(0, 7, 100), about(perfring.TypeFork, 200), runs(0, 7, 210), blocks(0, 7, 300),
				runs(0, 7, 400),
			)},
			want: []sentWait{{7, 100, 400, "voluntary"}},
		},
		{
			name: "another thread calls execve, and gets the number of the first, which has ended", batches: []perfring.Batch{sure(
				about(perfring.TypeExit, 90), blocks(0, 7, 100), blocks(1, 7, 300), runs(0, 7, 400), blocks(0, 7, 500), runs(0, 7, 600),
			)},
			want: []sentWait{{7, 100, 400, "voluntary"}, {7, 100, 600, "voluntary"}},
		},
		{
			name: "it is preempted while it ends, before another thread gets its number", batches: []perfring.Batch{sure(
				about(perfring.TypeExit, 90), leaves(0, 7, 100, perfring.SwitchRunnable), runs(1, 7, 150), blocks(1, 7, 160), blocks(0, 7, 300),
				runs(0, 7, 400),
			)},
			want: []sentWait{{7, 50, 150, "involuntary"}, {7, 100, 400, "voluntary"}},
		},
		{
			name: "its last switch has no number, and another thread gets it", batches: []perfring.Batch{sure(
				about(perfring.TypeExit, 90), blocks(0, perfring.NoTask, 100), blocks(0, 7, 300), runs(0, 7, 400),
			)},
			want: []sentWait{{7, 100, 400, "voluntary"}},
		},
		{
			name: "names are lost", batches: []perfring.Batch{
				{
					Records: sure(blocks(0, 7, 100), runs(0, 7, 300)).Records, Certain: 1000, Looked: 1000,
					Names: perfring.NameBatch{Lost: 5, Blind: []perfring.Interval{{From: 200, To: 250}}},
				},
			},
			want: []sentWait{{7, 200, 300, "voluntary"}},
		},
		{
			name: "renamed by another thread", batches: []perfring.Batch{sure(blocks(0, 7, 100), about(perfring.TypeComm, 200), runs(0, 7, 300))},
			want: []sentWait{{7, 200, 300, "voluntary"}},
		},
		{
			name: "it left in a blind interval that ends after the records of the batch", batches: []perfring.Batch{
				{Blind: []perfring.Interval{{From: 200, To: 250}}, Certain: 210, Looked: 1000},
				{Records: sure(blocks(0, 7, 220), runs(0, 7, 300), blocks(0, 7, 310), runs(0, 7, 330)).Records, Certain: 1000, Looked: 1000},
			},
			want: []sentWait{{7, 20, 330, "voluntary"}}, counts: waitCounts{lost: Unknown{Blind: 1}},
		},
		{
			name: "records are lost on another CPU", batches: []perfring.Batch{
				{
					Records: sure(blocks(0, 7, 100), runs(0, 7, 150), blocks(0, 7, 160), runs(0, 7, 260), blocks(0, 7, 300), runs(0, 7, 350)).Records,
					Lost:    1, Blind: []perfring.Interval{{From: 200, To: 250, Lost: true}}, Certain: 1000, Looked: 1000,
				},
			},
			want: []sentWait{{7, 50, 150, "voluntary"}, {7, 50, 350, "voluntary"}}, counts: waitCounts{lost: Unknown{Records: 1}},
		},
		{
			name: "records are lost while it waits", batches: []perfring.Batch{
				sure(blocks(0, 7, 100)), {Lost: 1, Blind: []perfring.Interval{{From: 200, To: 250, Lost: true}}, Certain: 1000, Looked: 1000},
				sure(runs(0, 7, 300)),
			},
			counts: waitCounts{lost: Unknown{Records: 1}},
		},
		{
			name: "it left in a blind interval", batches: []perfring.Batch{
				{Records: blocks(0, 7, 220), Blind: []perfring.Interval{{From: 200, To: 250}}, Certain: 1000, Looked: 1000},
				sure(runs(0, 7, 300)),
			},
			counts: waitCounts{lost: Unknown{Blind: 1}},
		},
		{
			name: "it left in a loss that ends after the records of the batch, and after a CPU came online", batches: []perfring.Batch{
				{Blind: []perfring.Interval{{From: 200, To: 250, Lost: true}, {From: 200, To: 240}}, Certain: 210, Looked: 1000},
				{Records: sure(blocks(0, 7, 220), runs(0, 7, 300)).Records, Certain: 1000, Looked: 1000},
			},
			counts: waitCounts{lost: Unknown{Records: 1}},
		},
		{
			name: "a CPU was online before this was noticed", batches: []perfring.Batch{
				{Records: sure(blocks(0, 7, 100), runs(0, 7, 200)).Records, Certain: 1000, Looked: 90},
				{Blind: []perfring.Interval{{From: 90, To: 1100}}, Certain: 1200, Looked: 1100},
			},
			counts: waitCounts{lost: Unknown{Blind: 1}},
		},
		{
			name: "no CPU came online", batches: []perfring.Batch{
				{Records: sure(blocks(0, 7, 100), runs(0, 7, 200)).Records, Certain: 1000, Looked: 90}, {Certain: 1200, Looked: 1100},
			},
			want: []sentWait{{7, 100, 200, "voluntary"}},
		},
		{
			name: "records that others may precede", batches: []perfring.Batch{
				{Records: sure(blocks(0, 7, 100), runs(0, 7, 200)).Records, Certain: 200, Looked: 1000},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, sent := waitSession(t)
			for _, b := range c.batches {
				addAll(t, s, b)
			}
			s.out.send(t.Context(), time.Now())
			assert.Equal(t, c.want, waitsIn(t, s, *sent))
			m := (*sent)[0]
			got := waitCounts{m.Short, m.Unknown, m.NoStack}
			assert.Equal(t, c.counts, got)
		})
	}
}

// TestOpenWaits verifies that an ongoing wait is reported in parts that add up to its length, and that a part
// ends only when the wait is certainly long enough.
func TestOpenWaits(t *testing.T) {
	s, sent := waitSession(t)
	end := func(at int64) []sentWait {
		*sent = nil
		s.sampler.endInterval(t.Context(), &perfring.Batch{Certain: at, Looked: at})
		s.out.send(t.Context(), time.Now())
		return waitsIn(t, s, *sent)
	}
	addAll(t, s, sure(blocks(0, 7, 100), blocks(1, 8, 195)))
	assert.Equal(t, []sentWait{{7, 100, 199, "voluntary"}}, end(200), "the time of the part lies in the message")
	assert.Equal(t, []sentWait{{7, 100, 299, "voluntary"}, {8, 105, 299, "voluntary"}}, end(300))
	addAll(t, s, sure(runs(0, 7, 305), runs(0, 8, 340)))
	assert.Equal(t, []sentWait{{7, 5, 305, "voluntary"}, {8, 40, 340, "voluntary"}}, end(400), "the rest is reported, however short")
	assert.Empty(t, end(500))

	// A record is written after the end of the message that it is in.
	addAll(t, s, sure(blocks(0, 7, 510)))
	assert.Equal(t, []sentWait{{7, 40, 549, "voluntary"}}, end(550))
	addAll(t, s, sure(runs(0, 7, 549), blocks(0, 7, 551), runs(0, 7, 552)))
	assert.Empty(t, end(560))

	// Threads that have ended: one still has a number, and one is gone.
	const gone = 1 << 30 // more than any number
	addAll(t, s, sure(blocks(0, 9, 560), blocks(0, gone, 560)))
	assert.Empty(t, end(580))
	assert.Empty(t, s.sampler.(*waiting).waits.open)

	// A thread that /proc hides may have ended. It has not.
	hidden := uint32(os.Getpid())
	addAll(t, s, sure(blocks(0, hidden, 560)))
	assert.Empty(t, end(585))
	addAll(t, s, sure(runs(0, hidden, 588)))
	assert.Equal(t, []sentWait{{int64(hidden), 28, 588, "voluntary"}}, end(590))

	// A thread has ended, and another thread that has run since has its number. That thread waits later.
	addAll(t, s, sure(about(perfring.TypeExit, 590), blocks(0, 7, 591)))
	assert.Empty(t, end(595), "this thread does not wait")
	addAll(t, s, sure(blocks(0, 7, 596), runs(0, 7, 599)))

}

// Addresses of the code in which threads end: the ends of do_task_dead, and an address in do_exit.
const deadEnd, exits uint64 = 0xffffffff81000200, 0xffffffff81000210

// endingSession is waitSession with the addresses of that code.
func endingSession(t *testing.T) (s *session, sent *[]*Message) {
	t.Helper()
	s, sent = waitSession(t)
	list := fmt.Sprintf("%x T do_task_dead\n%x T do_exit\n%x T schedule\n", deadEnd-0x100, deadEnd, deadEnd+0x100)
	require.NoError(t, os.WriteFile(filepath.Join(s.out.of.Options.Procfs, "kallsyms"), []byte(list), 0o600))
	return sessionOf(t, s.out.of, nil, time.Now()), sent
}

// TestWaitsInGuests has a thread wait whose virtual CPU is loaded, of which arm64 records no stack.
func TestWaitsInGuests(t *testing.T) {
	for _, c := range []struct {
		core symtab.Range
		want []sentWait
	}{
		{symtab.Range{Start: leaf, End: leaf + 1}, []sentWait{{7, 140, 440, "voluntary"}}},
		{symtab.Range{}, []sentWait{{7, 100, 200, "voluntary"}, {7, 40, 440, "voluntary"}}},
	} {
		s, sent := waitSession(t)
		s.sampler.(*waiting).core = c.core
		b := sure(blocks(0, 7, 100), runs(0, 7, 200), blocks(0, 7, 400), runs(0, 7, 440))
		for i := range b.Records {
			if r := &b.Records[i]; r.Type == perfring.TypeSample {
				r.Stack, r.Guest = nil, true
			}
		}
		addAll(t, s, b)
		s.out.send(t.Context(), time.Now())
		assert.Equal(t, c.want, waitsIn(t, s, *sent))
		assert.Zero(t, (*sent)[0].NoStack)
		inGuest := rewritetest.Frame{Type: "kernel", Lines: []rewritetest.Line{{Name: GuestName, System: GuestName}}}
		for _, sample := range rewritetest.Samples((*sent)[0].Profiles[0]) {
			assert.Equal(t, []rewritetest.Frame{inGuest}, sample.Stack)
		}
	}
}

// TestThreadsThatEnd verifies what passes for the end of a thread if the function is known in which it leaves a CPU for the last
// time: that, and not a TypeExit, which the kernel also writes when a process runs a program by execve that gives it other rights.
func TestThreadsThatEnd(t *testing.T) {
	dies := func(cpu, tid uint32, at int64, scheduler ...uint64) []perfring.Record {
		records := blocks(cpu, tid, at)
		records[0].Stack = slices.Concat(scheduler, []uint64{deadEnd, exits, caller}) // a call ends the function
		return records
	}
	for _, c := range []struct {
		name    string
		records [][]perfring.Record
		want    []sentWait
		lost    Unknown
	}{
		{"it ends", [][]perfring.Record{about(perfring.TypeExit, 90), dies(0, 7, 100)}, nil, Unknown{}},
		{
			"it ends, in functions that the compiler did not inline",
			[][]perfring.Record{about(perfring.TypeExit, 90), dies(0, 7, 100, leaf, caller)}, nil, Unknown{},
		},
		{"it waits after execve", [][]perfring.Record{about(perfring.TypeExit, 90), blocks(0, 7, 100)}, []sentWait{{7, 400, 499, "voluntary"}}, Unknown{}},
		{"/proc shows nothing of it", [][]perfring.Record{blocks(0, 70, 100)}, []sentWait{{70, 400, 499, "voluntary"}}, Unknown{}},
		{
			"it waits while it ends", [][]perfring.Record{about(perfring.TypeExit, 90), blocks(0, 7, 100), runs(0, 7, 150), dies(0, 7, 160)},
			[]sentWait{{7, 50, 150, "voluntary"}}, Unknown{},
		},
		{
			"another thread calls execve, and gets its number",
			[][]perfring.Record{about(perfring.TypeExit, 90), dies(0, 7, 100), blocks(1, 7, 300), runs(0, 7, 400)},
			[]sentWait{{7, 100, 400, "voluntary"}}, Unknown{},
		},
		{"the sample is of another thread", [][]perfring.Record{dies(0, 8, 100)[:1], blocks(0, 7, 100)[1:]}, nil, Unknown{Records: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, sent := endingSession(t)
			addAll(t, s, sure(c.records...))
			s.sampler.endInterval(t.Context(), &perfring.Batch{Certain: 500, Looked: 500})
			s.out.send(t.Context(), time.Now())
			assert.Equal(t, c.want, waitsIn(t, s, *sent))
			assert.Equal(t, c.lost, (*sent)[0].Unknown)
		})
	}
}

// TestEndingThreads has a thread be preempted, or block, while it ends. No record ends its wait if its parent waits for it before
// it goes on.
func TestEndingThreads(t *testing.T) {
	const gone = 1 << 30 // more than any number
	exit := []perfring.Record{{Type: perfring.TypeExit, Time: 90, PID: gone, TID: gone}}
	leavesIn := func(cpu uint32, at int64, stack ...uint64) []perfring.Record {
		records := leaves(cpu, gone, at, perfring.SwitchRunnable)
		records[0].Stack = stack
		return records
	}
	in := leavesIn(0, 100, leaf, exits, caller)
	reported := func(waited, at int64) []sentWait { return []sentWait{{gone, waited, at, "involuntary"}} }
	for _, c := range []struct {
		name    string
		records [][]perfring.Record
		state   [2]string // in each of two messages; empty if it is gone
		flags   int
		want    [2][]sentWait
		open    int     // waits at the end
		unknown Unknown // if a thread with this number leaves a CPU again
	}{
		{"it is gone", [][]perfring.Record{exit, in}, [2]string{}, 0, [2][]sentWait{}, 0, Unknown{}},
		{"it is a zombie", [][]perfring.Record{exit, in}, [2]string{"Z", "Z"}, isEnding, [2][]sentWait{}, 0, Unknown{}},
		{"it is gone in the second message", [][]perfring.Record{exit, in}, [2]string{"R"}, isEnding, [2][]sentWait{reported(100, 199)}, 0, Unknown{}},
		{
			"it goes on to end", [][]perfring.Record{exit, in}, [2]string{"D", "D"}, isEnding,
			[2][]sentWait{reported(100, 199), reported(100, 299)}, 1, Unknown{},
		},
		{"another thread has its number", [][]perfring.Record{exit, in}, [2]string{"R", "R"}, goesOn, [2][]sentWait{}, 1, Unknown{}},
		{"the record of its end is lost", [][]perfring.Record{in}, [2]string{"R"}, isEnding, [2][]sentWait{reported(100, 199)}, 0, Unknown{}},
		{
			"it dumps core", [][]perfring.Record{in}, [2]string{"D", "D"}, goesOn,
			[2][]sentWait{reported(100, 199), reported(100, 299)}, 1, Unknown{NoReturn: 1},
		},
		{
			"it goes on after execve", [][]perfring.Record{exit, leavesIn(0, 100, leaf, caller)}, [2]string{"S", "S"}, goesOn,
			[2][]sentWait{reported(100, 199), reported(100, 299)}, 1, Unknown{NoReturn: 1},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, sent := endingSession(t)
			dir := filepath.Join(s.out.of.Options.Procfs, strconv.Itoa(gone))
			addAll(t, s, sure(c.records...))
			for i, state := range c.state {
				if writeStat(t, dir, state, c.flags); state == "" {
					require.NoError(t, os.RemoveAll(dir))
				}
				*sent = nil
				at := int64(200 + 100*i)
				s.sampler.endInterval(t.Context(), &perfring.Batch{Certain: at, Looked: at})
				s.out.send(t.Context(), time.Now())
				assert.Equal(t, c.want[i], waitsIn(t, s, *sent), "message %d", i)
			}
			assert.Len(t, s.sampler.(*waiting).waits.open, c.open)
			addAll(t, s, sure(leavesIn(1, 310, leaf, caller)))
			assert.Equal(t, c.unknown, s.out.counts.Unknown)
		})
	}
}

// TestWaitsEndAfterInterval has waits end between the end of an interval, when the CPUs were checked, and the time up to which
// the last batch is complete. After a pause, nothing is left of them: what the message does not have is lost.
func TestWaitsEndAfterInterval(t *testing.T) {
	for _, c := range []struct {
		name          string
		records       [][]perfring.Record
		reported      int64 // the end of an earlier interval
		want          []sentWait
		next          perfring.Batch // without a pause
		wantNext      []sentWait
		unknownInNext int
	}{
		{
			name: "in parts that add up", records: [][]perfring.Record{blocks(1, 8, 500), blocks(0, 7, 600), runs(0, 7, 645), runs(1, 8, 650)},
			want: []sentWait{{7, 40, 639, "voluntary"}, {8, 140, 639, "voluntary"}},
			next: sure(), wantNext: []sentWait{{7, 5, 645, "voluntary"}, {8, 10, 650, "voluntary"}},
		},
		{
			name: "reported before", records: [][]perfring.Record{blocks(0, 7, 600), runs(0, 7, 650)}, reported: 635,
			want: []sentWait{{7, 5, 639, "voluntary"}},
			next: sure(), wantNext: []sentWait{{7, 10, 650, "voluntary"}},
		},
		{
			name: "beside one that goes on", records: [][]perfring.Record{blocks(0, 8, 610), blocks(0, 7, 620), runs(0, 7, 650)},
			want: []sentWait{{7, 20, 639, "voluntary"}, {8, 30, 639, "voluntary"}},
			next: sure(runs(0, 8, 680)), wantNext: []sentWait{{7, 10, 650, "voluntary"}, {8, 40, 680, "voluntary"}},
		},
		{
			name: "at the end of the interval", records: [][]perfring.Record{blocks(0, 7, 600), runs(0, 7, 640)},
			want: []sentWait{{7, 40, 639, "voluntary"}}, next: sure(),
		},
		{
			name: "below the threshold at the end of the interval", records: [][]perfring.Record{blocks(0, 7, 631), runs(0, 7, 650)},
			next: sure(), wantNext: []sentWait{{7, 19, 650, "voluntary"}},
		},
		{
			name: "begins after the interval", records: [][]perfring.Record{blocks(0, 7, 641), runs(0, 7, 655)},
			next: sure(), wantNext: []sentWait{{7, 14, 655, "voluntary"}},
		},
		{
			name: "a CPU came online after the interval", records: [][]perfring.Record{blocks(0, 7, 600), runs(0, 7, 650)},
			want: []sentWait{{7, 40, 639, "voluntary"}},
			next: perfring.Batch{Blind: []perfring.Interval{{From: 640, To: 750}}, Certain: 800, Looked: 750}, unknownInNext: 1,
		},
		{
			name: "its return is missing, because a CPU came online", records: [][]perfring.Record{blocks(0, 7, 600), blocks(0, 7, 650)},
			next: perfring.Batch{Blind: []perfring.Interval{{From: 640, To: 750}}, Certain: 800, Looked: 750}, unknownInNext: 2,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, sent := waitSession(t)
			end := func(b perfring.Batch) []sentWait {
				*sent = nil
				s.out.send(t.Context(), timeOf(s.sampler.endInterval(t.Context(), &b)))
				return waitsIn(t, s, *sent)
			}
			last := sure(c.records...)
			last.Certain, last.Looked = 700, 640
			if c.reported != 0 {
				addAll(t, s, sure(last.Records[:2]))
				last.Records = last.Records[2:]
				end(perfring.Batch{Certain: c.reported, Looked: c.reported})
			}
			addAll(t, s, last)
			assert.ElementsMatch(t, c.want, end(last))
			addAll(t, s, c.next)
			assert.ElementsMatch(t, c.wantNext, end(perfring.Batch{Certain: 800, Looked: 800}))
			assert.Equal(t, Unknown{Blind: c.unknownInNext}, (*sent)[0].Unknown)
		})
	}
}

// TestSpentSwitches verifies that the switches of an interval are counted, including those to and from idle
// tasks. A thread that begins to run does not count, nor does a record that is not yet certain.
func TestSpentSwitches(t *testing.T) {
	s, _ := waitSession(t) // with 1,000 switches a second
	addAll(t, s, sure(blocks(0, 7, 100), runs(0, 0, 100), leaves(0, 0, 200, perfring.SwitchRunnable), runs(0, 7, 200)))
	addAll(t, s, perfring.Batch{Records: blocks(0, 7, 300), Certain: 300})
	assert.Equal(t, 2*time.Millisecond, s.sampler.spent())
	s.sampler.endInterval(t.Context(), &perfring.Batch{Certain: 400, Looked: 400})
	assert.Zero(t, s.sampler.spent())
}

// TestWaitsFillMessages has more ongoing waits than a message holds.
func TestWaitsFillMessages(t *testing.T) {
	s, sent := waitSession(t)
	s.out.of.Options.MaxSamples = 2
	addAll(t, s, sure(blocks(0, 1, 100), blocks(0, 2, 100), blocks(0, 3, 100), blocks(0, 4, 100), blocks(0, 5, 100)))
	s.sampler.endInterval(t.Context(), &perfring.Batch{Certain: 200, Looked: 200})
	s.out.send(t.Context(), time.Now())
	assert.Len(t, *sent, 3)
	assert.Len(t, waitsIn(t, s, *sent), 5)
}

// TestWaitMessage verifies the types of a message about waits, and that equal waits are not merged: no backend accepts
// several values beside timestamps.
func TestWaitMessage(t *testing.T) {
	s, sent := waitSession(t)
	addAll(t, s, sure(blocks(0, 7, 100), runs(0, 7, 200), blocks(0, 7, 300), runs(0, 7, 400)))
	s.out.send(t.Context(), time.Now())
	require.Len(t, *sent, 1)
	pd := (*sent)[0].Profiles[0]
	profile := pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0)
	str := func(i int32) string { return pd.Dictionary().StringTable().At(int(i)) }
	assert.Equal(t, []string{"off_cpu", "nanoseconds", "off_cpu", "nanoseconds"}, []string{
		str(profile.SampleType().TypeStrindex()), str(profile.SampleType().UnitStrindex()),
		str(profile.PeriodType().TypeStrindex()), str(profile.PeriodType().UnitStrindex()),
	})
	assert.Zero(t, profile.Period(), "Pyroscope recognizes off-CPU time by the period 0")
	assert.Equal(t, 2, profile.Samples().Len())
	assert.Equal(t, 2, pd.Dictionary().StackTable().Len(), "their stack is the same")
	assert.Equal(t, []uint64{leaf + 7 - 1, caller}, stacksOf(pd)[0], "the first address lies in the call")
}

// TestContract_5_3_SummedWaits verifies which waits are one sample: those that differ in their lengths and times only, and whose
// stack lies in the text of the core kernel. The sum has the time at which the last one ended, and is in the message once.
func TestContract_5_3_SummedWaits(t *testing.T) {
	const text = 0xffffffff81000000 // leaf lies behind its beginning
	for _, c := range []struct {
		name    string
		core    symtab.Range
		records [][]perfring.Record
		want    []sentWait
	}{
		{
			name: "of two threads", core: symtab.Range{Start: text, End: text + 0x100},
			records: [][]perfring.Record{
				blocks(0, 7, 100), runs(0, 8, 110), runs(0, 7, 200), blocks(0, 8, 210), blocks(0, 7, 300), runs(0, 8, 310), runs(0, 7, 410),
			},
			want: []sentWait{{7, 210, 410, "voluntary"}, {8, 100, 310, "voluntary"}},
		},
		{
			name: "of two kinds", core: symtab.Range{Start: text, End: text + 0x100},
			records: [][]perfring.Record{
				blocks(0, 7, 100), runs(0, 7, 200), leaves(0, 7, 300, perfring.SwitchRunnable), runs(0, 7, 340), blocks(0, 7, 400), runs(0, 7, 420),
			},
			want: []sentWait{{7, 120, 420, "voluntary"}, {7, 40, 340, "involuntary"}},
		},
		{
			name: "that left two CPUs", core: symtab.Range{Start: text, End: text + 0x100},
			records: [][]perfring.Record{blocks(0, 7, 100), runs(1, 7, 200), blocks(1, 7, 300), runs(1, 7, 400)},
			want:    []sentWait{{7, 100, 200, "voluntary"}, {7, 100, 400, "voluntary"}},
		},
		{
			name: "a call at the end of the text", core: symtab.Range{Start: text, End: caller},
			records: [][]perfring.Record{blocks(0, 7, 100), runs(0, 7, 200), blocks(0, 7, 300), runs(0, 7, 400)},
			want:    []sentWait{{7, 200, 400, "voluntary"}},
		},
		{
			name: "the caller lies behind the text", core: symtab.Range{Start: text, End: caller - 1},
			records: [][]perfring.Record{blocks(0, 7, 100), runs(0, 7, 200), blocks(0, 7, 300), runs(0, 7, 400)},
			want:    []sentWait{{7, 100, 200, "voluntary"}, {7, 100, 400, "voluntary"}},
		},
		{
			name: "the first frame lies before the text", core: symtab.Range{Start: leaf + 7, End: text + 0x100},
			records: [][]perfring.Record{blocks(0, 7, 100), runs(0, 7, 200), blocks(0, 7, 300), runs(0, 7, 400)},
			want:    []sentWait{{7, 100, 200, "voluntary"}, {7, 100, 400, "voluntary"}},
		},
		{
			name: "the text is not known", records: [][]perfring.Record{blocks(0, 7, 100), runs(0, 7, 200), blocks(0, 7, 300), runs(0, 7, 400)},
			want: []sentWait{{7, 100, 200, "voluntary"}, {7, 100, 400, "voluntary"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, sent := waitSession(t)
			s.sampler.(*waiting).core = c.core
			b := sure(c.records...)
			addAll(t, s, b)
			s.out.send(t.Context(), time.Now())
			assert.ElementsMatch(t, c.want, waitsIn(t, s, *sent))
			var waits int
			for _, r := range b.Records {
				if r.Switch == perfring.SwitchIn && r.Time > 110 {
					waits++
				}
			}
			assert.Equal(t, []int{len(c.want), waits}, []int{(*sent)[0].Samples, (*sent)[0].Waits}, "a sum takes the room of one sample")
		})
	}
}

// TestSumsBeginAnew verifies that a message does not have what was sent before.
func TestSumsBeginAnew(t *testing.T) {
	s, sent := waitSession(t)
	s.sampler.(*waiting).core = symtab.Range{End: math.MaxUint64}
	for range 2 {
		*sent = nil
		addAll(t, s, sure(blocks(0, 7, 100), runs(0, 7, 200), blocks(0, 7, 300), runs(0, 7, 400)))
		s.out.send(t.Context(), time.Now())
		assert.Equal(t, []sentWait{{7, 200, 400, "voluntary"}}, waitsIn(t, s, *sent))
	}
}

// TestReadCoreText verifies that the text is read only where waits are to be summed, and that nothing is summed where it is
// hidden.
func TestReadCoreText(t *testing.T) {
	const readable = "ffffffff81000000 T _stext\nffffffff81002000 T schedule\nffffffff81003000 T _etext\n"
	for _, c := range []struct {
		name, list string
		sum        bool
		want       symtab.Range
	}{
		{"readable", readable, true, symtab.Range{Start: 0xffffffff81000000, End: 0xffffffff81003000}},
		{"not wanted", readable, false, symtab.Range{}},
		{"hidden", "0000000000000000 T _stext\n0000000000000000 T schedule\n0000000000000000 T _etext\n", true, symtab.Range{}},
		{"incomplete", "ffffffff81002000 T schedule\n", true, symtab.Range{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &Options{Procfs: writeKallsyms(t, c.list)}
			require.NoError(t, os.MkdirAll(filepath.Join(o.Procfs, "self", "ns"), 0o755)) // without PID namespaces
			methods, err := Waiting{Sum: c.sum}.methods(o, false)
			require.NoError(t, err)
			assert.Equal(t, c.want, methods[0].sampler(&outbox{}).(*waiting).core)
		})
	}
}

// TestWaitsKeepNames: a wait has the name that the thread had at the end of the wait.
func TestWaitsKeepNames(t *testing.T) {
	s, _ := waitSession(t)
	named := about(perfring.TypeComm, 50)
	named[0].Comm = "before"
	renamed := about(perfring.TypeComm, 250)
	renamed[0].Comm = "after"
	b := sure(named, blocks(0, 7, 100), runs(0, 7, 200), renamed)
	b.Looked = 0
	addAll(t, s, b)
	addAll(t, s, sure())
	assert.Equal(t, []string{"before"}, threadNames(s))
}

// TestWithoutScheduler verifies where the stack of a wait begins if the functions of the scheduler are left out.
func TestWithoutScheduler(t *testing.T) {
	scheduler := []symtab.Range{{Start: 0x1000, End: 0x2000}}
	for _, c := range []struct{ stack, want []uint64 }{
		{[]uint64{0x1010, 0x1020, 0x3000, 0x1030}, []uint64{0x3000, 0x1030}},
		{[]uint64{0x1010, 0x2000, 0x3000}, []uint64{0x3000}}, // the return address of a call that ends the section
		{[]uint64{0x1010}, []uint64{0x1010}},
		{[]uint64{0x3000}, []uint64{0x3000}},
	} {
		assert.Equal(t, c.want, withoutScheduler(c.stack, scheduler))
	}
	assert.Equal(t, []uint64{0x1010}, withoutScheduler([]uint64{0x1010}, nil))
}

// TestWaitsAreBounded has more threads wait than the sampler remembers.
func TestWaitsAreBounded(t *testing.T) {
	w := newWaits(0, true, endCode{}, new(Message))
	for tid := range uint32(maxThreads + 10) {
		for _, r := range blocks(0, tid+1, 100) {
			w.note(&r)
		}
	}
	assert.Len(t, w.open, maxThreads)
	assert.Equal(t, Unknown{Threads: 10}, w.counts.Unknown)
	assert.Equal(t, 10, w.counts.Unknown.All())
}

// TestExecveOfARecordedProcess has the first thread of a process end while another calls execve, gets its number, and waits. With
// events of these threads alone, the first one has no last switch that could pass for that wait.
func TestExecveOfARecordedProcess(t *testing.T) {
	for _, lastSwitch := range []bool{false, true} {
		w := newWaits(0, lastSwitch, endCode{}, new(Message))
		for _, r := range append([]perfring.Record{{Type: perfring.TypeExit, Time: 50, PID: 1, TID: 1}}, blocks(0, 1, 100)...) {
			w.note(&r)
		}
		waits := w.report(200, func(uint32) procfs.Life { return procfs.Lives })
		assert.Equal(t, !lastSwitch, len(waits) == 1, "%+v", waits)
	}
}

// TestProcessWithoutEvents verifies when a new session is needed because the kernel has ended the events of a process that goes
// on, or a thread has none.
func TestProcessWithoutEvents(t *testing.T) {
	gone, hidden := uint32(1<<30), uint32(os.Getpid()) // the former is more than any number
	const minute = int64(time.Minute)
	old := perfring.Monotonic.Now() - minute
	recent := old + 2*minute // however long this test takes
	of := func(typ perfring.Type) func(pid, tid uint32, at int64) []perfring.Record {
		return func(pid, tid uint32, at int64) []perfring.Record {
			return []perfring.Record{{Type: typ, Time: at, PID: pid, TID: tid}}
		}
	}
	exit, begin := of(perfring.TypeExit), of(perfring.TypeFork)
	for _, c := range []struct {
		name    string
		all     bool
		records [][]perfring.Record
		want    bool
	}{
		{"it goes on", false, [][]perfring.Record{exit(1, 1, old)}, true},
		{"with events of all threads, too", true, [][]perfring.Record{exit(1, 1, old)}, false},
		{"it may be about to end", false, [][]perfring.Record{exit(1, 1, recent)}, false},
		{"it has ended", false, [][]perfring.Record{exit(9, 9, old)}, false},
		{"it has ended, and is gone", false, [][]perfring.Record{exit(gone, gone, old)}, false},
		{"/proc hides it", false, [][]perfring.Record{exit(hidden, hidden, old)}, true},
		{"another of its threads has ended", false, [][]perfring.Record{exit(1, 7, old)}, false},
		{"execve by another thread, which has events", false, [][]perfring.Record{exit(1, 1, old), runs(0, 1, old+1)}, false},
		{"a thread that was being made", false, [][]perfring.Record{begin(1, 7, old)}, true},
		{"it is not selected", false, [][]perfring.Record{begin(1, 8, old)}, false},
		{"it may be about to run", false, [][]perfring.Record{begin(1, 7, recent)}, false},
		{"it has ended", false, [][]perfring.Record{begin(1, 9, old)}, false},
		{"it has events", false, [][]perfring.Record{begin(1, 7, old), runs(0, 7, old+1)}, false},
		{"a process, which is not recorded", false, [][]perfring.Record{begin(2, 2, old)}, false},
		{"two of them", false, [][]perfring.Record{exit(9, 9, old), exit(1, 1, old+1), exit(2, 2, recent)}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _ := waitSession(t)
			threads := Waiting{MaxSwitches: 1000}
			if !c.all {
				threads.Tasks = func() ([]perfring.Task, error) { return nil, nil }
			}
			s.out.of.Options.Threads = threads
			s.out.of.Keep = func(_, tid uint32) bool { return tid != 8 }
			s = sessionOf(t, s.out.of, nil, time.Now())
			b := sure(c.records...)
			b.Certain = math.MaxInt64
			addAll(t, s, b)
			assert.Equal(t, c.want, s.isOutdated())
			assert.False(t, s.isOutdated(), "it is known by now")
		})
	}
}
