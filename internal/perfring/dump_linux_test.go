// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

var update = flag.Bool("update", false,
	"record the rings in testdata anew, on the running kernel and as root, and what is read from them")

// dumpHeader is the size of the header of a dump, before the ring's data: the head and the
// tail.
const dumpHeader = 16

// dumps are the rings in testdata, and the functions that fill them.
var dumps = map[string]struct {
	record func(t *testing.T, r *ring)
	holds  func(r *ring, records []Record) bool // whether the dump serves its purpose
}{
	"functions": {
		func(t *testing.T, _ *ring) {
			open(t, SymbolOptions("/sys")) // another reader makes records longer
			loadWithFunction(t)
		},
		func(_ *ring, records []Record) bool { return len(records) == 6 },
	},
	"wrapped": {
		func(t *testing.T, _ *ring) { require.NoError(t, load(t, "wrapped", 1).Close()) },
		func(r *ring, _ []Record) bool { return len(r.wrapped) > 0 },
	},
	"overflow": {
		func(t *testing.T, r *ring) {
			for range 50 {
				require.NoError(t, load(t, "overflow", 1).Close())
			}
			require.NoError(t, r.drain(func([]byte) {}))
			require.NoError(t, load(t, "after", 1).Close())
		},
		func(_ *ring, records []Record) bool { return records[0].Type == TypeLost && len(records) == 5 },
	},
}

// loadWithFunction loads and closes a program of two functions.
func loadWithFunction(t *testing.T) {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "functions", Type: ebpf.SocketFilter, License: "GPL",
		Instructions: asm.Instructions{
			asm.Call.Label("second"), asm.Return(),
			asm.Mov.Imm(asm.R0, 1).WithSymbol("second"), asm.Return(),
		},
	})
	require.NoError(t, err)
	require.NoError(t, prog.Close())
}

// TestDumps reads rings of Linux 6.18 on amd64. The expected records are in files next to them,
// one record per line. Review these files after -update has written them.
func TestDumps(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the dumps are of a little-endian machine")
	}
	for name, dump := range dumps {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", "symbols-"+name+".ring")
			if *update {
				writeDump(t, file, dump.record, dump.holds)
			}
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			r := ringOf(raw)
			records := r.records(t)
			assert.True(t, dump.holds(r, records), "the dump does not hold what it is for")
			want, err := os.ReadFile(file + ".jsonl")
			require.NoError(t, err)
			assert.Equal(t, string(want), jsonLines(t, records))
		})
	}
}

// addDumps gives a fuzz target the records of the dumps.
func addDumps(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob("testdata/*.ring")
	require.NoError(f, err)
	require.Len(f, files, len(dumps))
	for _, file := range files {
		dump, err := os.ReadFile(file)
		require.NoError(f, err)
		if ringOf(dump).drain(func(raw []byte) { f.Add(bytes.Clone(raw)) }) != nil {
			f.Log(file, "is of a machine with the other byte order")
		}
	}
}

func ringOf(dump []byte) *ring {
	r := memoryRing(len(dump)-dumpHeader, binary.LittleEndian.Uint64(dump), binary.LittleEndian.Uint64(dump[8:]))
	copy(r.data, dump[dumpHeader:])
	return r
}

func jsonLines(t *testing.T, records []Record) string {
	t.Helper()
	var lines strings.Builder
	for _, rec := range records {
		line, err := json.Marshal(rec)
		require.NoError(t, err)
		lines.Write(line)
		lines.WriteByte('\n')
	}
	return lines.String()
}

// writeDump calls record on a CPU until its ring serves the purpose of the dump, and then
// writes the ring.
func writeDump(t *testing.T, file string, record func(*testing.T, *ring), holds func(*ring, []Record) bool) {
	t.Helper()
	kerneltest.NeedBPF(t)
	opts := SymbolOptions("/sys")
	opts.BytesPerCPU = 1
	r := open(t, opts).state.main.rings[0]
	require.NoError(t, pin(r.cpu.number))
	for {
		require.NoError(t, r.drain(func([]byte) {}))
		record(t, r)
		dump := binary.LittleEndian.AppendUint64(nil, atomic.LoadUint64(r.head))
		dump = binary.LittleEndian.AppendUint64(dump, *r.tail)
		dump = append(dump, r.data...)
		copied := ringOf(dump)
		if records := copied.records(t); holds(copied, records) {
			require.NoError(t, os.WriteFile(file, dump, 0o600))
			require.NoError(t, os.WriteFile(file+".jsonl", []byte(jsonLines(t, records)), 0o600))
			return
		}
	}
}
