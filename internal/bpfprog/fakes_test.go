package bpfprog

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// fakePrograms are programs that no kernel has.
type fakePrograms struct {
	loaded map[uint32]*bpf.Program
	hidden map[uint32]bool // listed, but gone when asked for
	err    error           // of listing
	asked  []uint32
	onNext func()
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

func (*fakePrograms) BTF(uint32) (*bpf.BTF, error) { return nil, bpf.ErrGone }

// tagOf returns the tag that stands for n.
func tagOf(n int) (tag [8]byte) {
	tag[7] = byte(n)
	return tag
}

// prog returns a program without BTF whose functions are at the addresses, each of
// 0x40 bytes. Its tag, and its name, depend on n; that of function i is n+i.
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

// recordsOf returns what the kernel records of a program that comes or goes.
func recordsOf(at int64, p *bpf.Program, event perfring.ProgramEvent) (records []perfring.Record) {
	for i, f := range p.Functions {
		records = append(records, ksymbol(at, f.Addr, symbolOf(p, i), event == perfring.ProgramUnload))
	}
	return append(records, perfring.Record{
		Type: perfring.TypeBPFEvent, Time: at, Program: &perfring.Program{Event: event, ID: p.ID, Tag: p.Tag},
	})
}

func loads(at int64, p *bpf.Program) []perfring.Record { return recordsOf(at, p, perfring.ProgramLoad) }
func unloads(at int64, p *bpf.Program) []perfring.Record {
	return recordsOf(at, p, perfring.ProgramUnload)
}

// fakeFollower returns a follower of programs, which it has listed.
func fakeFollower(t *testing.T, p *fakePrograms) *follower {
	t.Helper()
	f := newFollower(&Source{opts: Options{
		SourceLines: true, Trampolines: true, History: symtab.History{TTL: time.Hour, MaxEntries: 1000},
	}, programs: p})
	f.resync(t.Context())
	return f
}

// catchUp lists again as soon as it is allowed, and asks for what records have named.
func catchUp(t *testing.T, f *follower) {
	t.Helper()
	for f.resyncs.wanted || len(f.ask) > 0 {
		f.resyncs.next = time.Time{}
		f.complete(t.Context())
	}
}

// expectPrograms checks that the table has the functions of the programs, and no other
// function of a program.
func expectPrograms(t *testing.T, f *follower, programs ...*bpf.Program) {
	t.Helper()
	want, got := map[uint64]string{}, map[uint64]string{}
	for _, p := range programs {
		for i, function := range p.Functions {
			want[function.Addr] = fmt.Sprint(symbolOf(p, i), " of ", p.ID, p.TypeName(), " to ", function.Addr+uint64(function.Len))
		}
	}
	for _, function := range f.table().Functions() {
		if function.Origin == symtab.OriginBPF {
			p := symtab.Program{}
			if function.Program != nil {
				p = *function.Program
			}
			got[function.Start] = fmt.Sprint(function.Name(), " of ", p.ID, p.Type, " to ", function.End())
		}
	}
	assert.Equal(t, want, got)
}

// nameAt returns the name of an address now, empty if there is none.
func nameAt(f *follower, addr uint64) string { return nameThen(f, addr, symtab.Now) }

func nameThen(f *follower, addr uint64, at symtab.Interval) string {
	sym, ok := f.table().Lookup(addr, at)
	if !ok {
		return ""
	}
	return sym.Name().Name
}

// playback is a recorder that has bursts of records, and then none.
type playback struct {
	bursts [][]perfring.Record
	end    func()
}

func (p *playback) Read(ctx context.Context, _ time.Time) ([]perfring.Record, error) {
	if len(p.bursts) == 0 {
		p.end()
		return nil, ctx.Err()
	}
	burst := p.bursts[0]
	p.bursts = p.bursts[1:]
	return burst, nil
}

func (*playback) Close() error { return nil }
