// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// loadMore loads programs and unloads all but the last one, which stays until the test ends. It
// returns their addresses from the kernel's records. ok is false if records were lost.
func loadMore(t *testing.T) (stays place, brief []place, ok bool) {
	t.Helper()
	reader, err := perfring.Open(perfring.SymbolOptions("/sys"))
	require.NoError(t, err)
	defer func() { require.NoError(t, reader.Close()) }()
	var tags []string
	var during []int64 // an instant at which each was loaded
	tagOf := func(p *ebpf.Program) string {
		info, err := p.Info()
		require.NoError(t, err)
		return info.Tag
	}
	const several = 5 // too many for a list of programs, made four times a second, to have them all
	for n := range int32(several) {
		p := kerneltest.LoadBPF(t, kerneltest.SmallProgram("kernelsym_brief", 4711+n, 0))
		tags = append(tags, tagOf(p))
		time.Sleep(30 * time.Millisecond)                // code loaded until just before makes it ambiguous (contract 5.4)
		during = append(during, perfring.Boottime.Now()) // not from the records: their times can differ much between readers
		time.Sleep(30 * time.Millisecond)
		require.NoError(t, p.Close())
	}
	spec := kerneltest.HotProgram(t)
	info, err := kerneltest.LoadBPF(t, spec).Info()
	require.NoError(t, err)
	hot, _ := info.ID()
	mains := make(map[uint32]place) // the main functions of programs like that one, by the thread that loads them
	found := make(map[string]place)
	for stays.Addr == 0 || len(found) < several {
		deadline := time.Now().Add(time.Minute)
		require.NoError(t, reader.Wait(t.Context(), deadline))
		require.True(t, time.Now().Before(deadline), "records of the programs arrive")
		batch := reader.Poll()
		if len(batch.Blind) > 0 {
			return place{}, nil, false
		}
		for _, r := range batch.Records {
			if r.Type != perfring.TypeKsymbol { // another kind of record, which comes after the symbols of its program
				if r.Program != nil && r.Program.ID == uint32(hot) {
					stays = mains[r.TID]
				}
				continue
			}
			tag := timeline.TagOf(r.Symbol.Name)
			p := place{Addr: r.Symbol.Addr, End: r.Symbol.Addr + uint64(r.Symbol.Len), Name: "bpf_prog_"}
			_, known := found[tag]
			switch {
			case r.Symbol.Unregister:
			case strings.HasSuffix(r.Symbol.Name, spec.Name): // on Linux 5.10, its tag is another
				mains[r.TID] = p
			case !known && slices.Contains(tags, tag) && int(r.PID) == os.Getpid(): // another process can load the same
				p.Name += tag
				found[tag] = p
			}
		}
	}
	for n, tag := range tags {
		p := found[tag]
		p.At = during[n]
		brief = append(brief, p)
	}
	return stays, brief, true
}
