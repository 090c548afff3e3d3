// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// The addresses in idleSymbols.
const (
	inEntry   = 0xffffffff81000040
	inFred    = 0xffffffff81000108
	inSoftirq = 0xffffffff81000210
	inHalt    = 0xffffffff81000310
	inIdle    = 0xffffffff81000410
	inStartup = 0xffffffff81000510
	inFlush   = 0xffffffff81000610
	inOther   = 0xffffffff81000710
)

// hiddenSymbols is what kallsyms has where the kernel hides its addresses.
const hiddenSymbols = "0000000000000000 T _text\n"

const idleSymbols = `ffffffff81000000 T _text
ffffffff81000010 T __entry_text_start
ffffffff81000080 T __entry_text_end
ffffffff81000100 t asm_fred_entrypoint_kernel
ffffffff81000180 t behind
ffffffff81000200 t handle_softirqs
ffffffff81000300 t pv_native_safe_halt
ffffffff81000400 t do_idle
ffffffff81000500 T cpu_startup_entry
ffffffff81000600 T flush_smp_call_function_queue
ffffffff81000700 T vfs_read
ffffffff81001000 T _etext
`

// writeKallsyms writes a list of kernel symbols to a directory that stands for /proc.
func writeKallsyms(t *testing.T, list string) (procfs string) {
	t.Helper()
	procfs = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(procfs, "kallsyms"), []byte(list), 0o600))
	return procfs
}

// TestIdleLoop verifies which stacks are dropped: an idle task's, if it only waits.
func TestIdleLoop(t *testing.T) {
	i, err := readIdle(&Options{Procfs: writeKallsyms(t, idleSymbols)})
	require.NoError(t, err)
	for _, c := range []struct {
		name   string
		stack  []uint64
		isLoop bool
	}{
		{"halted", []uint64{inHalt, inIdle, inStartup}, true},
		{"do_idle inlined", []uint64{inHalt, inStartup}, true},
		{"at its first byte", []uint64{inIdle - 0x10, inStartup}, true},
		{"returned to behind a call at its end", []uint64{inOther, inIdle + 0xf0, inStartup}, true},
		{"softirq after an interrupt", []uint64{inOther, inSoftirq, inEntry, inHalt, inIdle, inStartup}, false},
		{"interrupt", []uint64{inOther, inEntry, inHalt, inIdle, inStartup}, false},
		{"interrupt with FRED", []uint64{inOther, inFred, inHalt, inIdle, inStartup}, false},
		{"calls from other CPUs while polling", []uint64{inOther, inFlush, inIdle, inStartup}, false},
		{"another task", []uint64{inOther, inEntry}, false},
		{"another task, in the kernel only", []uint64{inHalt}, false},
		{"no stack", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.isLoop, i.isLoop(c.stack)) })
	}
}

// TestIdleLoopIsLeftOut verifies that samples of the idle loop are neither sent nor counted, and that other
// samples of an idle CPU are.
func TestIdleLoopIsLeftOut(t *testing.T) {
	var sent []*Message
	sampler := &Sampler{
		Options: Options{
			Threads: Running{Event: EventClock, Frequency: 97}, MaxSamples: 100, Procfs: writeKallsyms(t, idleSymbols),
		},
		Send: func(_ context.Context, m *Message) { sent = append(sent, m) },
	}
	s := sessionOf(t, sampler, nil, time.Now())
	addAll(t, s, perfring.Batch{Records: []perfring.Record{
		{Type: perfring.TypeSample, Time: 6, Stack: []uint64{inHalt, inIdle, inStartup}},
		{Type: perfring.TypeSample, Time: 7, Stack: []uint64{inOther, inEntry, inHalt, inIdle, inStartup}},
		{Type: perfring.TypeSample, Time: 8, Guest: true},
	}})
	s.out.send(t.Context(), time.Now())
	require.Len(t, sent, 1)
	assert.Equal(t, 2, sent[0].Samples)
	assert.Zero(t, sent[0].NoStack)
}

// TestIdleLoopIsNotKnown verifies that the idle task is not sampled if its loop cannot be distinguished from
// work, and that the error gives the reason.
func TestIdleLoopIsNotKnown(t *testing.T) {
	for _, c := range []struct {
		name, list string
		want       error
	}{
		{"hidden", "0000000000000000 T _text\n0000000000000000 t do_idle\n", kallsyms.ErrRestricted},
		{"without entry code", "ffffffff81000000 t do_idle\nffffffff81001000 T _etext\n", ErrIdleWork},
		{"without the loop", "ffffffff81000000 T __entry_text_start\nffffffff81001000 T __entry_text_end\n", ErrIdleWork},
	} {
		t.Run(c.name, func(t *testing.T) {
			i, err := readIdle(&Options{Procfs: writeKallsyms(t, c.list)})
			require.ErrorIs(t, err, ErrIdleWork)
			require.ErrorIs(t, err, c.want)
			assert.Zero(t, i)
		})
	}
	_, err := readIdle(&Options{Procfs: t.TempDir()})
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestIdleLoopOfALocatedKernel verifies that the idle loop is found where the kernel was located if kallsyms is hidden, and
// only then.
func TestIdleLoopOfALocatedKernel(t *testing.T) {
	visible := &Options{Procfs: writeKallsyms(t, idleSymbols)}
	want, err := readIdle(visible)
	require.NoError(t, err)
	core, err := kallsyms.ParseCore(strings.NewReader(idleSymbols), "amd64", "", "")
	require.NoError(t, err)
	var located *timeline.Image
	for _, procfs := range []string{writeKallsyms(t, hiddenSymbols), t.TempDir()} {
		hidden := &Options{Procfs: procfs, Located: func() *timeline.Image { return located }}
		located = nil
		_, err := readIdle(hidden)
		require.ErrorIs(t, err, ErrIdleWork)
		located = core
		got, err := readIdle(hidden)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	visible.Located = func() *timeline.Image { t.Error("it was asked for"); return nil }
	_, err = readIdle(visible)
	require.NoError(t, err)
}

// TestBeginningAgain verifies that a session is outdated only if the kernel was located since it began, and addresses in it
// are missing.
func TestBeginningAgain(t *testing.T) {
	core, err := kallsyms.ParseCore(strings.NewReader(idleSymbols), "amd64", "", "")
	require.NoError(t, err)
	for _, c := range []struct {
		name    string
		threads Threads
		list    string
		want    bool
	}{
		{"the idle loop is missing", Running{Event: EventClock, Frequency: 97}, hiddenSymbols, true},
		{"the scheduler is missing", Waiting{MaxSwitches: 1}, hiddenSymbols, true},
		{"nothing is missing", Running{Event: EventClock, Frequency: 97}, idleSymbols, false},
		{"the end of threads is missing", Waiting{MaxSwitches: 1, Scheduler: true}, hiddenSymbols, true},
		{"nothing is wanted", Running{Event: EventClock, Frequency: 97, Idle: true}, hiddenSymbols, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			procfs := writeKallsyms(t, c.list)
			require.NoError(t, os.MkdirAll(filepath.Join(procfs, "self", "ns"), 0o755)) // without PID namespaces
			var located *timeline.Image
			sampler := &Sampler{Options: Options{Threads: c.threads, Procfs: procfs, Located: func() *timeline.Image { return located }}}
			s := sessionOf(t, sampler, nil, time.Now())
			assert.False(t, s.isOutdated(), "it was not located")
			located = core
			assert.Equal(t, c.want, s.isOutdated())
			s.located = core
			assert.False(t, s.isOutdated(), "it was located before")
		})
	}
}

// TestIdleNeedNotBeKnown verifies that kallsyms is not read if the idle loop is sampled, or only cycles are.
func TestIdleNeedNotBeKnown(t *testing.T) {
	for _, threads := range []Running{{Event: EventClock, Frequency: 97, Idle: true}, {Event: EventCycles, Frequency: 97}} {
		methods, err := threads.methods(&Options{Procfs: t.TempDir()}, false)
		require.NoError(t, err)
		require.Len(t, methods, 1)
		require.NoError(t, methods[0].missing.IdleWork)
		assert.Zero(t, methods[0].sampler(nil).(*running).idle)
	}
}
