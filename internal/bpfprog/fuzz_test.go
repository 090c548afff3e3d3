// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// FuzzApply applies records that no kernel would make. After a loss and a list, the loaded program is still
// found. If records claimed another name for it, it may have that one, or none.
func FuzzApply(f *testing.F) {
	f.Add("bpf_prog_0000000000000001_p1", uint64(0x1000), uint32(0x40), uint16(1), int64(1), true)
	f.Add("", uint64(1<<64-1), uint32(1<<32-1), uint16(0), int64(-1<<63), false)
	f.Add("bpf_trampoline_1", uint64(0xff0), uint32(0x1000), uint16(1), int64(1<<62), true)
	f.Fuzz(func(t *testing.T, name string, addr uint64, length uint32, kind uint16, at int64, event bool) {
		a := prog(1, 1, 0, 0x1000)
		r := newTestSource(t, newFakes(a))
		at = min(at, r.now()) // a record is not younger than the list that follows it
		for _, unregister := range []bool{false, true, false} {
			rec := perfring.Record{Type: perfring.TypeKsymbol, Time: at, CPU: uint32(kind), TID: 1000 + uint32(kind), Symbol: &perfring.Symbol{
				Addr: addr, Len: length, Kind: perfring.SymbolKind(kind), Name: name, Unregister: unregister,
			}}
			r.emit(rec, rec)
			if event {
				r.emit(loads(at, a)[1:]...)
			}
		}
		r.loseRecords(r.now(), r.now())
		r.listNow()
		if got := r.nameAt(0x1000); !event || got != name {
			require.Equal(t, symbolOf(a, 0), got)
		}
		require.Equal(t, uint32(1), r.image(0x1000).Program.ID)
	})
}

// FuzzParseTail parses symbol lists.
func FuzzParseTail(f *testing.F) {
	f.Add("ffffffff81000000 T _text\nffffffffc0000000 t bpf_prog_0123456789abcdef_x\t[bpf]\n" +
		"ffffffffc0001000 t bpf_trampoline_6442\t[bpf]\nffffffffc0002000 t kprobe_insn_page\t[__builtin__kprobes]\n")
	f.Add("0000000000000000 t bpf_trampoline_6442\t[bpf]\n")
	f.Add("x\t[bpf]")
	f.Fuzz(func(t *testing.T, list string) {
		lines, err := parseTail(t.Context(), strings.NewReader(list), budget)
		require.NotErrorIs(t, err, errBudget, "it is short")
		if err != nil && len(lines.all) == 0 {
			return
		}
		require.NotErrorIs(t, err, kallsyms.ErrRestricted)
		for _, l := range lines.all {
			require.Contains(t, list, l.name)
			require.Equal(t, l.origin == timeline.OriginBPF, timeline.TagOf(l.name) != "" && l.origin != timeline.OriginOOL)
		}
	})
}
