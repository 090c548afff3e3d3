// SPDX-License-Identifier: Apache-2.0

package profilertest

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/ebpf-profiler/kallsyms"
	"go.opentelemetry.io/ebpf-profiler/libpf"

	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// BenchmarkLookup looks up the same random addresses of the core kernel here and in the profiler.
// docs/figures.md has the results. The profiler needs the name to find the symbol.
func BenchmarkLookup(b *testing.B) {
	kerneltest.NeedAddresses(b)
	from := sources.Everything("/proc", "/sys")
	from.BPF.Trampolines = false // reading them has a time limit
	snapshot, err := symcache.Load(b.Context(), sources.List(from)...)
	require.NoError(b, err)
	profiler, err := kallsyms.NewSymbolizer()
	require.NoError(b, err)
	theirs := profiler.Snapshot()

	core, r := snapshot.Core(), rand.New(rand.NewPCG(1, 2))
	var addrs []uint64
	for len(addrs) < 1<<17 {
		s := core.Text.Symbol(r.IntN(core.Len()))
		addr := s.Start + r.Uint64N(s.End()-s.Start)
		if _, err := theirs.GetModuleByAddress(libpf.Address(addr)); err == nil { // fails in init text
			addrs = append(addrs, addr)
		}
	}
	found := 0
	for name, look := range map[string]func(addr uint64){
		"kernelsym": func(addr uint64) {
			hit, _ := snapshot.At(addr, timeline.Always)
			found += int(hit.Symbol.Start)
		},
		"kernelsym with name": func(addr uint64) {
			hit, _ := snapshot.At(addr, timeline.Always)
			found += len(hit.Name().Name)
		},
		"profiler": func(addr uint64) {
			m, err := theirs.GetModuleByAddress(libpf.Address(addr))
			if err != nil {
				b.Fatal(err)
			}
			name, _, err := m.LookupSymbolByAddress(libpf.Address(addr))
			if err != nil {
				b.Fatal(err)
			}
			found += len(name)
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				look(addrs[i%len(addrs)])
			}
		})
	}
}
