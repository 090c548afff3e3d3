package bpfprog

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// world is a kernel that follows what a fuzzer says, and its records on the way to a
// follower.
type world struct {
	*fakePrograms
	f       *follower
	at      int64
	next    uint32
	ring    []perfring.Record // not applied yet
	dropped bool              // some were lost, which was not told yet
}

// step does what a byte says.
func (w *world) step(t *testing.T, op byte) {
	w.at += 1000
	slot := int(op >> 4)
	switch op & 15 {
	case 0, 1, 2, 3: // a program is loaded, its second function in the slot's other half
		addr := 0x10000 + uint64(slot)*0x100
		w.next++
		p := prog(w.next, slot&3, w.at-500, addr)
		if op&15 == 3 {
			p = prog(w.next, slot&3, w.at-500, addr, addr+0x80)
		}
		if w.overlaps(p) {
			return
		}
		w.loaded[p.ID] = p
		w.emit(loads(w.at, p))
	case 4, 5, 6: // one is unloaded
		for _, p := range w.loaded {
			if p.Functions[0].Addr == 0x10000+uint64(slot)*0x100 {
				w.emit(unloads(w.at, p))
				delete(w.loaded, p.ID)
				break
			}
		}
	case 7: // the ring is read
		w.read(t)
	case 8: // and records that came too late
		slices.Reverse(w.ring)
		w.read(t)
	case 9: // there was no room for the last ones
		w.drop(min(slot, len(w.ring)))
	case 10: // it is listed, or asked for
		w.f.resyncs.next = time.Time{}
		w.f.complete(t.Context())
	case 11:
		if addr := 0x10000 + uint64(slot)*0x80; slot&1 != 0 || !w.overlaps(prog(0, 0, 0, addr)) {
			w.emit([]perfring.Record{trampoline(w.at, addr, slot&1 != 0)})
		}
	case 12: // a program is there for listing, but not to be asked for
		w.hidden[uint32(slot)] = !w.hidden[uint32(slot)]
	case 13:
		w.f.resyncs.wanted = true
	case 14:
		w.f.functions.Expire(w.at)
	case 15: // a record of nothing
		w.f.apply([]perfring.Record{ksymbol(w.at, 0x10000+uint64(slot)*0x40, "bpf_prog_0000000000000001_p1", slot&1 != 0)})
		w.f.resyncs.wanted = true // for nobody will ever take it back
	}
}

func (w *world) overlaps(p *bpf.Program) bool {
	for _, other := range w.loaded {
		for _, a := range other.Functions {
			for _, b := range p.Functions {
				if a.Addr < b.Addr+uint64(b.Len) && b.Addr < a.Addr+uint64(a.Len) {
					return true
				}
			}
		}
	}
	return false
}

func (w *world) emit(records []perfring.Record) {
	w.tellLost()
	w.ring = append(w.ring, records...)
}

// tellLost tells, before the next record, that some were lost.
func (w *world) tellLost() {
	if w.dropped {
		w.ring = append(w.ring, lost(w.at))
		w.dropped = false
	}
}

func (w *world) drop(n int) {
	w.ring = w.ring[:len(w.ring)-n]
	w.dropped = w.dropped || n > 0
}

func (w *world) read(t *testing.T) {
	t.Helper()
	w.tellLost()
	w.f.apply(w.ring)
	w.ring = w.ring[:0]
	checkOrder(t, w.f.table())
}

// checkOrder checks that what is there does not overlap.
func checkOrder(t *testing.T, table *symtab.Table) {
	t.Helper()
	end := uint64(0)
	for _, f := range table.Functions() {
		require.GreaterOrEqual(t, f.Start, end)
		require.Greater(t, f.End(), f.Start)
		end = f.End()
	}
}

// FuzzFollower loads and unloads programs, and loses, reverses and delays the records of
// that. After the records that are left, and a list if one is wanted, exactly the
// programs that are there are known, and those that were there all the time always.
func FuzzFollower(f *testing.F) {
	f.Add([]byte("\x00\x10\x23\x07\x04\x00\x07\x0a\x33\x34\x79\x07\x0a"))
	f.Add([]byte("\x03\x07\x04\x02\x19\x04\x03\x07\x0a"))
	f.Add([]byte("\x00\x04\x00\x0a\x07\x04\x0a\x00\x08\x0b\x1b\x00\x07"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		lasting := prog(1, 9, 0, 0x8000, 0x8100)
		w := &world{fakePrograms: newFakes(lasting), next: 100}
		w.f = fakeFollower(t, w.fakePrograms)
		w.at = now()
		w.f.now = func() int64 { return w.at }
		for _, op := range ops {
			w.step(t, op)
			require.Equal(t, symbolOf(lasting, 1), nameAt(w.f, 0x8100))
		}
		w.hidden = nil
		w.read(t)
		catchUp(t, w.f)
		var left []*bpf.Program
		for _, p := range w.loaded {
			left = append(left, p)
		}
		expectPrograms(t, w.f, left...)
	})
}

// FuzzApply applies records that no kernel would make.
func FuzzApply(f *testing.F) {
	f.Add("bpf_prog_0000000000000001_p1", uint64(0x1000), uint32(0x40), uint16(1), int64(1), true)
	f.Add("", uint64(1<<64-1), uint32(1<<32-1), uint16(0), int64(-1<<63), false)
	f.Fuzz(func(t *testing.T, name string, addr uint64, length uint32, kind uint16, at int64, event bool) {
		a := prog(1, 1, 0, 0x1000)
		w := fakeFollower(t, newFakes(a))
		for _, unregister := range []bool{false, true, false} {
			r := perfring.Record{Type: perfring.TypeKsymbol, Time: at, CPU: uint32(kind), Symbol: &perfring.Symbol{
				Addr: addr, Len: length, Kind: perfring.SymbolKind(kind), Name: name, Unregister: unregister,
			}}
			w.apply([]perfring.Record{r, r})
			if event {
				w.apply(loads(at, a)[1:])
			}
			checkOrder(t, w.table())
		}
		w.resyncs.wanted = true
		catchUp(t, w)
		sym, ok := w.table().Lookup(0x1000, symtab.Now)
		require.True(t, ok)
		require.Equal(t, symbolOf(a, 0), sym.Name().Name)
	})
}

// FuzzParseOthers parses lists of symbols.
func FuzzParseOthers(f *testing.F) {
	f.Add("ffffffff81000000 T _text\nffffffffc0000000 t bpf_prog_0123456789abcdef_x\t[bpf]\n" +
		"ffffffffc0001000 t bpf_trampoline_6442\t[bpf]\nffffffffc0002000 t kprobe_insn_page\t[__builtin__kprobes]\n")
	f.Add("0000000000000000 t bpf_trampoline_6442\t[bpf]\n")
	f.Add("x\t[bpf]")
	f.Fuzz(func(t *testing.T, list string) {
		others, err := parseOthers(strings.NewReader(list), func() bool { return false })
		require.NotErrorIs(t, err, errBudget, "it is short")
		if err != nil && len(others) == 0 {
			return
		}
		require.NotErrorIs(t, err, kallsyms.ErrRestricted)
		for _, o := range others {
			require.Contains(t, list, o.name)
			require.Equal(t, o.origin == symtab.OriginBPF, symtab.TagOf(o.name) != "" && o.origin != symtab.OriginOOL)
		}
	})
}
