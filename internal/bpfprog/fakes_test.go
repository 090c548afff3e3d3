// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/btf"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// fakePrograms stands in for the kernel's list of programs.
type fakePrograms struct {
	loaded map[uint32]*bpf.Program
	hidden map[uint32]bool // listed, but gone when asked for
	err    error           // of listing
	types  []byte          // BTF, of all programs that have any
	btfErr error           // of reading it
	asked  []uint32
	onNext func()

	modules map[uint32]fakeModule // by BTF object
}

// A fakeModule has BTF that continues the core kernel's.
type fakeModule struct {
	name  string
	types []byte
}

func newFakes(all ...*bpf.Program) *fakePrograms {
	p := &fakePrograms{loaded: map[uint32]*bpf.Program{}, hidden: map[uint32]bool{}}
	for _, prog := range all {
		p.loaded[prog.ID] = prog
	}
	return p
}

func (p *fakePrograms) Next(after uint32) (uint32, error) {
	if p.onNext != nil {
		p.onNext()
	}
	if p.err != nil {
		return 0, p.err
	}
	next := uint32(math.MaxUint32)
	for id := range p.loaded {
		if id > after {
			next = min(next, id)
		}
	}
	if next == math.MaxUint32 {
		return 0, io.EOF
	}
	return next, nil
}

func (p *fakePrograms) Program(id uint32, _ bpf.Want) (*bpf.Program, error) {
	p.asked = append(p.asked, id)
	prog := p.loaded[id]
	if prog == nil || p.hidden[id] {
		return nil, bpf.ErrGone
	}
	return prog, nil
}

func (p *fakePrograms) ModuleBTF(id uint32, core *btf.BTF) (string, *btf.BTF, error) {
	module, ok := p.modules[id]
	switch {
	case p.err != nil:
		return "", nil, p.err
	case !ok:
		return "", nil, bpf.ErrGone
	}
	types, err := btf.ParseSplit(module.types, core)
	return module.name, types, err
}

func (p *fakePrograms) BTF(uint32) (*btf.BTF, error) {
	if p.btfErr != nil {
		return nil, p.btfErr
	}
	return btf.Parse(p.types)
}

// tagOf returns a tag made from n.
func tagOf(n int) (tag [8]byte) {
	tag[7] = byte(n)
	return tag
}

// prog returns a program without BTF that has a function of 0x40 bytes at each address. Its tag and its name
// depend on n; the tag of function i is n+i.
func prog(id uint32, n int, loaded int64, addrs ...uint64) *bpf.Program {
	p := &bpf.Program{ID: id, Type: 6, Tag: tagOf(n), Name: fmt.Sprint("p", n), LoadTime: loaded}
	for i, addr := range addrs {
		p.Functions = append(p.Functions, bpf.Function{Addr: addr, Len: 0x40, Tag: tagOf(n + i)})
	}
	return p
}

// symbolOf returns the kernel's symbol for function i of a program.
func symbolOf(p *bpf.Program, i int) string {
	tag, name := p.Tag, p.Name
	if i > 0 {
		tag, name = p.Functions[i].Tag, "F"
	}
	return "bpf_prog_" + hex.EncodeToString(tag[:]) + "_" + name
}

// ksymbol returns a record of code of 0x40 bytes.
func ksymbol(at int64, addr uint64, name string, unregister bool) perfring.Record {
	return perfring.Record{Type: perfring.TypeKsymbol, Time: at, Symbol: &perfring.Symbol{
		Addr: addr, Len: 0x40, Kind: perfring.KsymBPF, Name: name, Unregister: unregister,
	}}
}

// recordsOf returns the kernel's records of a program that is loaded or unloaded.
func recordsOf(at int64, p *bpf.Program, event perfring.ProgramEvent) (records []perfring.Record) {
	for i, f := range p.Functions {
		records = append(records, ksymbol(at, f.Addr, symbolOf(p, i), event == perfring.ProgramUnload))
	}
	records = append(records, perfring.Record{
		Type: perfring.TypeBPFEvent, Time: at, Program: &perfring.Program{Event: event, ID: p.ID, Tag: p.Tag},
	})
	for i := range records {
		records[i].TID = 1000 + p.ID // each is loaded by a task of its own
	}
	return records
}

func loads(at int64, p *bpf.Program) []perfring.Record { return recordsOf(at, p, perfring.ProgramLoad) }
func unloads(at int64, p *bpf.Program) []perfring.Record {
	return recordsOf(at, p, perfring.ProgramUnload)
}

// at returns the hit at an address during an interval, and whether it has a symbol.
func at(table *timeline.Table, addr uint64, during timeline.Interval) (timeline.Hit, bool) {
	hit, _ := timeline.NewSnapshot(table).At(addr, during)
	return hit, hit.Symbol.Exists()
}

// tape is an EventSource that returns the records a test puts into it.
type tape struct {
	batch     perfring.Batch
	certain   func() int64               // returns the batch's Certain
	fill      func(*tape) perfring.Batch // makes the batch, if set
	err       error                      // what Wait returns
	refreshed atomic.Int32
	onRefresh func() // called while CPUs are refreshed
	missesCPU bool
	closed    atomic.Int32
}

func (r *tape) Wait(ctx context.Context, _ time.Time) error {
	if r.err != nil {
		return r.err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (r *tape) Poll() perfring.Batch {
	certain := r.certain()
	if r.fill != nil {
		r.batch = r.fill(r)
	}
	b := r.batch
	b.At, b.Certain = certain, certain
	r.batch = perfring.Batch{}
	return b
}

func (r *tape) RefreshCPUs(bool) error {
	r.refreshed.Add(1)
	if r.onRefresh != nil {
		r.onRefresh()
	}
	return nil
}

func (r *tape) MissesCPU() bool { return r.missesCPU }
func (r *tape) Close() error    { r.closed.Add(1); return nil }

// fakeCPUs is a source of events about CPUs.
type fakeCPUs struct{ events []uevent.Event }

func (c *fakeCPUs) Poll() (e uevent.Event, ok bool, err error) {
	if len(c.events) == 0 {
		return e, false, nil
	}
	e, c.events = c.events[0], c.events[1:]
	return e, true, nil
}

func (c *fakeCPUs) Wait(ctx context.Context, _ time.Time) error {
	<-ctx.Done()
	return ctx.Err()
}

func (*fakeCPUs) Close() error { return nil }

// online announces a CPU.
func (c *fakeCPUs) online() {
	c.events = append(c.events, uevent.Event{Action: "online", DevPath: "/devices/system/cpu/cpu1", Subsystem: "cpu"})
}

// A testSource is a Source made of fakes. It runs a round when the test says so, and only the test advances
// its clock.
type testSource struct {
	clock atomic.Int64 // of records; each reading advances it by tick
	tick  atomic.Int64
	*Source
	*tape
	events *fakeCPUs
	t      *testing.T
	table  *timeline.Table // that it published last
	tables int             // number of them
	counts symcache.Counts
	err    error
}

// newTestSource returns a source that has listed the programs.
func newTestSource(t *testing.T, p ProgramReader) *testSource {
	t.Helper()
	r := newUnstarted(t, p)
	r.begin()
	r.round(t.Context())
	return r
}

// newTestSourceWith returns a source that has listed the programs, where the sysctl
// kernel.unprivileged_bpf_disabled has a value.
func newTestSourceWith(t *testing.T, p ProgramReader, unprivileged string) *testSource {
	t.Helper()
	r := newUnstarted(t, p)
	r.setUnprivileged(unprivileged)
	r.begin()
	r.round(t.Context())
	return r
}

// setUnprivileged sets the sysctl kernel.unprivileged_bpf_disabled.
func (r *testSource) setUnprivileged(value string) {
	require.NoError(r.t, os.WriteFile(r.Source.kallsyms.procfs+"/sys/kernel/unprivileged_bpf_disabled", []byte(value), 0o600))
}

// newUnstarted returns a source that has not begun.
func newUnstarted(t *testing.T, p ProgramReader) *testSource {
	t.Helper()
	r := &testSource{tape: new(tape), events: new(fakeCPUs), t: t}
	r.clock.Store(perfring.Boottime.Now()) // later than 0, as on any machine
	r.tick.Store(int64(time.Microsecond))
	procfs := t.TempDir()
	require.NoError(t, os.MkdirAll(procfs+"/sys/kernel", 0o755))
	require.NoError(t, os.WriteFile(procfs+"/sys/kernel/unprivileged_bpf_disabled", []byte("0\n"), 0o600))
	r.Source = NewSourceFrom(Options{Sysfs: writeCoreBTF(t),
		SourceLines: true, Trampolines: true, History: timeline.Limits{TTL: time.Hour, MaxEntries: 1000},
		Procfs: procfs,
	}, func() (EventSource, error) { return r.tape, nil }, p)
	r.certain, r.state.now, r.run.lister.now = r.now, r.now, r.now
	r.dialCPUs = func() (cpuEvents, error) { return r.events, nil }
	r.publishEvery, r.minRest = 0, time.Hour // a round reads no second list
	r.Source.kallsyms.budget = time.Hour     // also where this process has no CPU for a while
	r.kallsyms(aProgram)
	return r
}

// now reads the clock.
func (r *testSource) now() int64 { return r.clock.Add(r.tick.Load()) }

// passTime advances the clock by more than code can run on after it was unloaded.
func (r *testSource) passTime() { r.clock.Add(10 * ms) }

// setClock stops the clock at an instant.
func (r *testSource) setClock(at int64) {
	r.tick.Store(0)
	r.clock.Store(at)
}

// round runs one round.
func (r *testSource) round(ctx context.Context) time.Time {
	r.t.Helper()
	deadline, err := r.Source.round(ctx)
	require.NoError(r.t, err)
	return deadline
}

// poll starts the source as if perf events were refused.
func (r *testSource) poll() {
	r.state.publish, r.state.ready = r.published, false
	r.start(nil, perfring.ErrMemory)
}

// begin does what Run does first.
func (r *testSource) begin() {
	r.state.publish, r.state.ready = r.published, false
	r.start(r.tape, nil)
	_, _ = r.connectCPUs(false)
}

func (r *testSource) published(u symcache.Update) {
	r.table, r.err = u.Table, u.Degraded
	r.tables++
	r.counts.LostRecords += u.Changes.Counts.LostRecords
	r.counts.Resyncs += u.Changes.Counts.Resyncs
	checkOrder(r.t, u.Table)
}

// emit puts records into the rings and runs a round.
func (r *testSource) emit(records ...perfring.Record) {
	r.batch.Records = append(r.batch.Records, records...)
	for r.round(r.t.Context()); len(r.state.follower.toQuery) > 0; {
		r.round(r.t.Context())
	}
}

// loseRecords makes the source lose the records of an interval.
func (r *testSource) loseRecords(from, to int64) {
	r.batch.Blind = append(r.batch.Blind, perfring.Interval{From: from, To: to})
	r.batch.Lost += 17
}

// listNow lists the programs without waiting.
func (r *testSource) listNow() {
	r.state.listAt = time.Time{}
	r.round(r.t.Context())
}

// aProgram is a line of a kernel that lists BPF code.
const aProgram = "ffffffffc0000000 t bpf_prog_0123456789abcdef_main\t[bpf]\n"

// kallsyms sets the last lines of the kernel's symbol list.
func (r *testSource) kallsyms(lines string) {
	text := "ffffffff81000000 T _text\nffffffff81000040 T _etext\n" + lines
	require.NoError(r.t, os.WriteFile(filepath.Join(r.Source.kallsyms.procfs, "kallsyms"), []byte(text), 0o600))
}

// readKallsyms lets enough time pass for the symbol list to be read.
func (r *testSource) readKallsyms() {
	r.state.kallsyms.lost, r.state.kallsyms.read = time.Time{}, time.Now().Add(-readEvery)
	r.round(r.t.Context())
}

// nameAt returns the name at an address now, empty if there is none.
func (r *testSource) nameAt(addr uint64) string { return r.nameThen(addr, timeline.Present) }

func (r *testSource) nameThen(addr uint64, during timeline.Interval) string {
	hit, ok := at(r.table, addr, during)
	if !ok {
		return ""
	}
	return hit.Name().Name
}

// isSettled reports whether lists have resolved all losses.
func (r *testSource) isSettled() bool { return r.state.follower.ledger.Loss().IsEmpty() }

// image returns the image at an address now.
func (r *testSource) image(addr uint64) *timeline.Image { return r.state.follower.ledger.At(addr) }

// expect checks that the table has the functions of these programs and of no others.
func (r *testSource) expect(programs ...*bpf.Program) {
	r.t.Helper()
	want, got := map[uint64]string{}, map[uint64]string{}
	for _, p := range programs {
		for i, f := range p.Functions {
			want[f.Addr] = fmt.Sprint(symbolOf(p, i), " of ", p.ID, p.TypeName(), " to ", f.Addr+uint64(f.Len))
		}
	}
	for _, m := range r.table.Loaded() {
		if m.Origin == timeline.OriginBPF {
			p := programOf(m)
			got[m.Start] = fmt.Sprint(m.Name(), " of ", p.ID, p.Type, " to ", m.End)
		}
	}
	assert.Equal(r.t, want, got)
}

// programOf returns a function's program without Since and Functions, which the tests do not compare.
func programOf(m *timeline.Image) (p timeline.Program) {
	if m.Program != nil {
		p = *m.Program
		p.Since, p.Functions = 0, 0
	}
	return p
}

// checkOrder checks that loaded images do not overlap.
func checkOrder(t *testing.T, table *timeline.Table) {
	t.Helper()
	end := uint64(0)
	for _, m := range table.Loaded() {
		require.GreaterOrEqual(t, m.Start, end)
		require.Greater(t, m.End, m.Start)
		end = m.End
	}
}

// now reads the clock of records.
func now() int64 { return perfring.Boottime.Now() }
