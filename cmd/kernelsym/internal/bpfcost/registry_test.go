// SPDX-License-Identifier: Apache-2.0

package bpfcost

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/procname"
	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/bpfprog"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// programs is a kernel with programs.
type programs map[uint32]bpf.Program

func (p programs) Next(after uint32) (uint32, error) {
	var ids []uint32
	for id := range p {
		if id > after {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return 0, io.EOF
	}
	return slices.Min(ids), nil
}

func (p programs) Program(id uint32, _ bpf.Want) (*bpf.Program, error) {
	if of, ok := p[id]; ok {
		return &of, nil
	}
	return nil, bpf.ErrGone
}

// newRegistry returns a registry of a kernel with these programs. It does not depend on the running
// kernel.
func newRegistry(t *testing.T, procfs string, p Programs) *Registry {
	t.Helper()
	kerneltest.SameInEachKernel(t)
	return &Registry{processes: procname.In(procfs), stop: func() {}, programs: p, known: make(map[uint32]Details)}
}

func list(t *testing.T, r *Registry) Reading {
	t.Helper()
	reading, err := r.List()
	require.NoError(t, err)
	return reading
}

// load is the record of a program that a process loaded.
func load(id, pid uint32) perfring.Record {
	return perfring.Record{
		Type: perfring.TypeBPFEvent, PID: pid,
		Program: &perfring.Program{Event: perfring.ProgramLoad, ID: id, Tag: [8]byte{0xab}},
	}
}

func TestRegistryRemembersProgramsThatAreGone(t *testing.T) {
	procfs := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(procfs, "77"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(procfs, "77", "comm"), []byte("loader\n"), 0o600))
	pid := strconv.Itoa(os.Getpid())
	require.NoError(t, os.Mkdir(filepath.Join(procfs, pid), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(procfs, pid, "status"), []byte("NSpid:\t"+pid+"\n"), 0o600))
	require.NoError(t, os.Symlink(pid, filepath.Join(procfs, "self")))
	kernel := programs{3: {Name: "there", Type: 6, Creator: 1000, Stats: bpf.Stats{Runs: 5, RunTime: 50}}}
	r := newRegistry(t, procfs, kernel)
	reading := list(t, r)
	assert.Equal(t, map[uint32]bpf.Stats{3: {Runs: 5, RunTime: 50}}, reading.Stats)

	kernel[4] = bpf.Program{Name: "short", Type: 1, Creator: 0}
	unload := load(3, 77)
	unload.Program = &perfring.Program{Event: perfring.ProgramUnload, ID: 3}
	r.note([]perfring.Record{
		load(4, 77), load(5, 77), load(6, 78), load(7, perfring.NoTask), unload, {Type: perfring.TypeKsymbol, PID: 77},
	})
	delete(kernel, 4)
	reading = list(t, r)
	assert.Len(t, reading.Stats, 1)
	known, err := r.Known()
	require.NoError(t, err)
	by, zero, thousand := &procname.Process{PID: 77, Name: "loader"}, uint32(0), uint32(1000)
	const tag = "ab00000000000000"
	assert.Equal(t, map[uint32]Details{
		3: {Name: "there", Type: "xdp", Tag: "0000000000000000", Creator: &thousand},
		4: {Name: "short", Type: "socket_filter", Tag: "0000000000000000", Creator: &zero, LoadedBy: by, Gone: true},
		5: {Tag: tag, LoadedBy: by, Gone: true}, // the kernel no longer described it
		6: {Tag: tag, LoadedBy: &procname.Process{PID: 78}, Gone: true},
		7: {Tag: tag, Gone: true},
	}, known)
}

// refusing is a kernel that refuses to list programs.
type refusing struct{ error }

func (r refusing) Next(uint32) (uint32, error)                    { return 0, r.error }
func (r refusing) Program(uint32, bpf.Want) (*bpf.Program, error) { return nil, r.error }

// TestRegistryWithoutPrivilege verifies that a program is not reported as unloaded merely because
// the list was refused.
func TestRegistryWithoutPrivilege(t *testing.T) {
	r := newRegistry(t, t.TempDir(), refusing{bpf.ErrPermission})
	r.note([]perfring.Record{load(4, 77)})
	reading, err := r.List()
	require.ErrorIs(t, err, bpf.ErrPermission)
	assert.Zero(t, reading)
	known, err := r.Known()
	require.NoError(t, err)
	assert.Equal(t, map[uint32]Details{4: {Tag: "ab00000000000000", LoadedBy: &procname.Process{PID: 77}}}, known)

	v := NewView(r, 0)
	require.Len(t, v.problems, 1)
	assert.Contains(t, v.problems[0], "CAP_SYS_ADMIN")
	r.unwatched = errors.New("refused")
	v.ask()
	assert.Contains(t, v.problems, "Who loads programs is not known: refused")
}

func TestRegistryForgetsWhatIsGone(t *testing.T) {
	r := newRegistry(t, t.TempDir(), programs{1: {}})
	for id := range uint32(maxKnown + 1) {
		r.known[id+2] = Details{}
	}
	list(t, r)
	assert.LessOrEqual(t, len(r.known), maxKnown)
	assert.Contains(t, r.known, uint32(1))
}

// TestRegistryIsBounded verifies that the registry is bounded even without any list.
func TestRegistryIsBounded(t *testing.T) {
	r := newRegistry(t, t.TempDir(), programs{})
	for id := range uint32(maxKnown + 10) {
		r.note([]perfring.Record{load(id+1, perfring.NoTask)})
		_, ok := r.known[id+1]
		require.True(t, ok)
	}
	assert.LessOrEqual(t, len(r.known), maxKnown)
}

// broken is a ring that panics.
type broken struct {
	bpfprog.EventSource
	closed bool
}

func (*broken) Wait(context.Context, time.Time) error { panic("the ring is broken") }
func (b *broken) Close() error                        { b.closed = true; return nil }

// TestRegistryThatPanics verifies that a panic is reported in one line, and that the process goes
// on.
func TestRegistryThatPanics(t *testing.T) {
	r, ring := newRegistry(t, t.TempDir(), programs{}), new(broken)
	r.watch(t.Context(), ring)
	assert.True(t, ring.closed)
	assert.Equal(t, []string{
		"Who loads programs is not known: this is a bug of kernelsym, please report it: panic: the ring is broken",
	}, NewView(r, 0).problems)
}

// busy is a ring that always has records, and ends after a number of wakes.
type busy struct{ wakes, refreshes int }

func (b *busy) Wait(context.Context, time.Time) error {
	if b.wakes--; b.wakes == 0 {
		return errors.New("it ends")
	}
	return nil
}

func (b *busy) Poll() perfring.Batch   { return perfring.Batch{} }
func (b *busy) RefreshCPUs(bool) error { b.refreshes++; return nil }
func (b *busy) MissesCPU() bool        { return false }
func (b *busy) Close() error           { return nil }

// TestRefreshesAreRare verifies that the registry does not check for new CPUs each time a program
// is loaded.
func TestRefreshesAreRare(t *testing.T) {
	const wakes = 100_000
	ring := &busy{wakes: wakes}
	newRegistry(t, t.TempDir(), programs{}).watch(t.Context(), ring)
	assert.Positive(t, ring.refreshes)
	assert.Less(t, ring.refreshes, wakes/10)
}

// TestCounted verifies that the kernel's count is a difference, and exists only for loaded
// programs.
func TestCounted(t *testing.T) {
	at := time.Unix(1000, 0)
	s := Sources{
		Counter:  NewCounter(),
		Counting: true,
		From:     Reading{at, map[uint32]bpf.Stats{1: {Runs: 100, RunTime: 1000}, 3: {Runs: 7, RunTime: 7}, 4: {Runs: 1}}},
		To: Reading{at.Add(2 * time.Second), map[uint32]bpf.Stats{
			1: {Runs: 300, RunTime: 1000 + 1e9}, // ran
			2: {Runs: 4, RunTime: 80},           // was loaded since
			3: {Runs: 7, RunTime: 7},            // did not run
		}},
		Programs: map[uint32]Details{1: {Name: "ran", Type: "xdp"}, 2: {Name: "new"}, 4: {Name: "unloaded", Gone: true}},
	}
	assert.Equal(t, &Counted{Runs: 200, RunsPerSecond: 100, NanosPerRun: 5e6, Percent: 50}, s.counted(1))
	assert.Equal(t, &Counted{Runs: 4, RunsPerSecond: 2, NanosPerRun: 20, Percent: 100 * 80 / 2e9}, s.counted(2))
	assert.Nil(t, s.counted(0))
	assert.Equal(t, &Counted{}, s.counted(3), "it is certain that it did not run")
	assert.Equal(t, []string{"0.00%", "0.0", "-"}, s.counted(3).cells())
	assert.Nil(t, s.counted(4))
	rows := s.Rows(ByKernel)
	require.Len(t, rows, 3, "all that are loaded, without any sample")
	assert.Equal(t, "ran", rows[0].Name)
	assert.Equal(t, "new", rows[1].Name)
	assert.Equal(t, uint32(3), rows[2].ID)
	hasNoCounts := func(why string) {
		for _, r := range s.Rows(ByKernel) {
			assert.True(t, r.Counted == nil || r.Counted.Runs == 0, why)
		}
	}
	s.Counting = false
	hasNoCounts("it is not known when the kernel counted")
	s.Counting = true
	from := s.From
	s.From = Reading{}
	hasNoCounts("nothing is known of the start")
	s.From, s.To = from, Reading{}
	assert.Empty(t, s.Rows(ByKernel), "nothing is known of the end, also not what is loaded")
	s.To = from
	hasNoCounts("no time has passed")
}
