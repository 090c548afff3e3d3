// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const text = 0xffff800081000000

func kernelInfo(size uint64) TextInfo {
	return TextInfo{Base: text, Start: text, End: text + size}
}

// rounds returns how many inputs a test tries: n, or a tenth of that with -short, which is meant
// for the race detector.
func rounds(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

// build builds a text from lines in any order, and checks it.
func build(t testing.TB, info TextInfo, lines ...line) *Text {
	t.Helper()
	var s Sorter
	for _, l := range lines {
		s.Add(l.addr, l.typ, []byte(l.name))
	}
	m, err := s.Build(info)
	require.NoError(t, err)
	checkText(t, m, newOracle(info, lines))
	return m
}

// checkText checks the invariants of a text, and that it agrees with the oracle at every address
// where a lookup could go wrong.
func checkText(t testing.TB, m *Text, o oracle) {
	t.Helper()
	last := m.Start
	for i := range m.Len() {
		s := m.Symbol(i)
		require.GreaterOrEqual(t, s.Start, last, "symbol %d", i)
		require.Less(t, s.Start, s.End(), "symbol %d", i)
		require.LessOrEqual(t, s.End(), m.End, "symbol %d", i)
		require.NotEmpty(t, m.Name(s).System, "symbol %d", i)
		last = s.End()
	}
	for _, addr := range o.probes() {
		name, start, end, ok := o.lookup(addr)
		sym, found := lookup(m, addr)
		require.Equal(t, ok, found, "%#x: oracle says %q", addr, name)
		if !ok {
			continue
		}
		require.Equal(t, name, m.Name(sym).System, "%#x", addr)
		require.Equal(t, [2]uint64{start, end}, [2]uint64{sym.Start, sym.End()}, "%#x %s", addr, name)
		require.Equal(t, len(o.namesAt(start)) > 1, m.Name(sym).Folded, "%#x %s", addr, name)
		for _, each := range o.namesAt(start) {
			require.True(t, m.HasName(sym, each), "%#x %s", addr, each)
		}
		require.False(t, m.HasName(sym, name+"?"), "%#x", addr)
	}
}

// lookup returns the symbol at any address, inside the text or not.
func lookup(m *Text, addr uint64) (s Symbol, ok bool) {
	if addr-m.Start < m.End-m.Start && !m.Gap.Contains(addr) {
		s = m.Lookup(addr)
	}
	return s, s.Exists()
}

func name(t testing.TB, m *Text, offset uint64) string {
	t.Helper()
	sym, ok := lookup(m, text+offset)
	if !ok {
		return ""
	}
	return m.Name(sym).System
}

func TestContract_3_2_Ranges(t *testing.T) {
	m := build(t, kernelInfo(0x1000),
		line{text - 0x10, 't', "before"},
		line{text + 0x00, 'T', "_stext"},
		line{text + 0x10, 't', "__pfx_first"},
		line{text + 0x20, 'T', "first"},
		line{text + 0x40, 'T', "__pfx_second"},
		line{text + 0x50, 'W', "second"},
		line{text + 0x80, 'd', "table_in_text"},
		line{text + 0x90, 'w', "third"},
		line{text + 0xa0, 'T', "__entry_text_end"},
		line{text + 0xb0, 't', "$x"},
		line{text + 0xc0, 't', "last"},
		line{text + 0x1000, 'T', "_etext"},
		line{text + 0x1000, 'T', "at_etext"},
		line{text + 0x2000, 'T', "init_function"},
	)
	for _, tt := range []struct {
		offset uint64
		want   string
	}{
		{^uint64(0x0f), ""}, // below the text, though a symbol starts there
		{0x00, ""}, {0x1f, ""},
		{0x20, "first"}, {0x3f, "first"},
		{0x40, ""}, {0x4f, ""}, // padding
		{0x50, "second"}, {0x7f, "second"},
		{0x80, ""},                       // data ends it
		{0x90, "third"}, {0x9f, "third"}, //
		{0xa0, ""}, {0xb0, ""}, {0xbf, ""}, // after a section marker; $x starts nothing
		{0xc0, "last"}, {0xfff, "last"}, // up to _etext
		{0x1000, ""}, {0x2000, ""}, {1, ""}, // _etext and beyond
	} {
		assert.Equal(t, tt.want, name(t, m, tt.offset), "%#x", tt.offset)
	}
}

func TestContract_3_3_Aliases(t *testing.T) {
	for _, tt := range []struct {
		names []string
		want  string
	}{
		{[]string{"__do_sys_pause", "__ia32_sys_pause", "__x64_sys_pause"}, "__do_sys_pause"},
		{[]string{"__x64_sys_pause", "__do_sys_pause"}, "__x64_sys_pause"},
		{[]string{"_text", "_stext", "startup_64"}, "startup_64"},
		{[]string{"__pi_memcpy", "memcpy", "__memcpy"}, "memcpy"},
		{[]string{"__pi_memcpy", "__memcpy"}, "__pi_memcpy"}, // a twin without its plain name
		{[]string{"__pi___x86_indirect_thunk_rax", "__x86_indirect_thunk_array", "__x86_indirect_thunk_rax"}, "__x86_indirect_thunk_array"},
		{[]string{"f.cfi_jt", "f.cfi", "f"}, "f"},
		{[]string{"f", "f.cfi"}, "f"},
		{[]string{"__pfx_f", "$x"}, ""},
	} {
		lines := []line{{text, 'T', "before"}, {text + 0x20, 'T', "after"}}
		for _, n := range tt.names {
			lines = append(lines, line{text + 0x10, 't', n})
		}
		m := build(t, kernelInfo(0x100), lines...)
		assert.Equal(t, tt.want, name(t, m, 0x10), "%q", tt.names)
	}
}

func TestBuilderOfSortedAndSorterAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	lines := randomLines(r, 5000, 3)
	var b Builder
	var s Sorter
	for _, l := range lines {
		b.Add(l.addr, l.typ, []byte(l.name))
	}
	// In reverse order, except for lines with one address, whose order counts.
	for i := len(lines) - 1; i >= 0; {
		k := i
		for k > 0 && lines[k-1].addr == lines[i].addr {
			k--
		}
		for _, l := range lines[k : i+1] {
			s.Add(l.addr, l.typ, []byte(l.name))
		}
		i = k - 1
	}
	info := kernelInfo(1 << 20)
	want, err := b.Build(info)
	require.NoError(t, err)
	got, err := s.Build(info)
	require.NoError(t, err)
	assert.Equal(t, want.symbols.extents, got.symbols.extents)
	assert.Equal(t, want.symbols.names.packed, got.symbols.names.packed)
}

// randomLines returns sorted lines, with bounds, aliases, twins and gaps.
func randomLines(r *rand.Rand, n int, step uint64) []line {
	var lines []line
	addr := uint64(text)
	for i := range n {
		addr += r.Uint64N(step)
		l := line{addr: addr, typ: "tTwWtTtTd"[r.IntN(9)]}
		switch r.IntN(10) {
		case 0:
			l.name = fmt.Sprintf("__pfx_%d", i)
		case 1:
			l.name = fmt.Sprintf("__pi_f%d", i+1)
		case 2:
			l.name = "same"
		case 3:
			l.name = fmt.Sprintf("%s%d", strings.Repeat("long_", 1+r.IntN(100)), i)
		default:
			l.name = fmt.Sprintf("f%d", i)
		}
		lines = append(lines, l)
	}
	return lines
}

func TestBuilderAgreesWithOracle(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		step := uint64(1) << (1 + seed%12)
		lines := randomLines(r, 300, step)
		size := lines[len(lines)-1].addr - text + 1 + r.Uint64N(10)
		build(t, kernelInfo(size), lines...)
	}
}

func TestBuilderKeepsExtremeSizes(t *testing.T) {
	// Sizes around the limit of 16 bits. Names around the limit of one length byte, around the
	// limit that two names can share, and the longest possible one.
	lines := []line{}
	addr := uint64(text)
	for i, size := range []uint64{1, largeSize - 1, largeSize, largeSize + 1, 1 << 20, 3, 1 << 31} {
		for k, length := range []int{1, 126, 127, 128, 129, 255, 256, 511} {
			lines = append(lines, line{addr, 'T', fmt.Sprintf("%c%s", 'a'+i, strings.Repeat("x", length-1))})
			if k == 7 {
				addr += size
			} else {
				addr++
			}
		}
	}
	build(t, kernelInfo(addr-text), lines...)
}

func TestNameLongerThanAKernelHasOnlyBounds(t *testing.T) {
	m := build(t, kernelInfo(0x100),
		line{text, 'T', "f"},
		line{text + 0x10, 'T', strings.Repeat("x", MaxNameLen+1)},
	)
	assert.Equal(t, "f", name(t, m, 0x0f))
	assert.Empty(t, name(t, m, 0x10))
}

func TestBuildErrors(t *testing.T) {
	add := func(b *Builder, addrs ...uint64) {
		for _, addr := range addrs {
			b.Add(addr, 'T', []byte("f"))
		}
	}
	for _, tt := range []struct {
		name  string
		info  TextInfo
		addrs []uint64
		want  error
	}{
		{"descending", kernelInfo(0x100), []uint64{text + 1, text}, ErrOrder},
		{"empty range", kernelInfo(0), nil, ErrRange},
		{"range of 4 GiB", kernelInfo(1 << 32), nil, ErrRange},
		{"start above end", TextInfo{Start: 2, End: 1}, nil, ErrRange},
		{"symbol below the start", kernelInfo(0x100), []uint64{text - 1}, ErrRange},
		{"symbols above the end", kernelInfo(0x100), []uint64{text + 0x100, text + 0x101}, ErrRange},
		{"symbols 4 GiB apart", TextInfo{Start: 1, End: 1 << 31}, []uint64{1, 1 + 1<<32}, ErrRange},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b Builder
			add(&b, tt.addrs...)
			_, err := b.Build(tt.info)
			require.ErrorIs(t, err, tt.want)

			// The builder is ready for use again.
			add(&b, text)
			m, err := b.Build(kernelInfo(0x10))
			require.NoError(t, err)
			assert.Equal(t, 1, m.Len())
		})
	}
}

func TestBuildNothing(t *testing.T) {
	m := build(t, kernelInfo(math.MaxUint32))
	assert.Zero(t, m.Len())
}

func TestStartAtForgetsWhatIsBelow(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before []line
	}{
		{"nothing", nil},
		{"symbols just below", []line{{text - 2, 't', "a"}, {text - 1, 't', "b"}}},
		{"symbols below", []line{{1, 't', "a"}, {5, 't', "b"}}},
		{"a symbol at the address", []line{{1, 't', "a"}, {text, 't', "f"}}},
		{"aliases at the address", []line{{text, 't', "__pi_f"}, {text, 't', "f"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b Builder
			want := []string{}
			for _, l := range tt.before {
				b.Add(l.addr, l.typ, []byte(l.name))
				if l.addr == text && l.name == "f" {
					want = []string{"f"}
				}
			}
			b.Add(text, 'T', []byte("_text"))
			b.StartAt(text)
			b.Add(text+8, 'T', []byte("g"))
			m, err := b.Build(kernelInfo(0x10))
			require.NoError(t, err)
			var got []string
			for i := range m.Len() {
				got = append(got, m.Name(m.Symbol(i)).System)
			}
			assert.Equal(t, append(want, "g"), got)
		})
	}
}

// FuzzBuilder verifies that a builder agrees with the oracle on lists in which every byte of the
// input means something.
func FuzzBuilder(f *testing.F) {
	f.Add([]byte("\x00\x10Tf\x00\x10Tg"))
	f.Add([]byte("\x00\x00Tmemcpy\x00\x00T__pi_memcpy\x01\x10t__pfx_x\xffAtx"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var lines []line
		addr := uint64(text)
		data = data[:min(len(data), 512)] // the oracle is slow
		for len(data) >= 4 {
			addr += uint64(int8(data[0]))<<4 + uint64(data[1]&0xf)
			n := min(int(data[1]>>4), len(data)-3)
			lines = append(lines, line{addr, data[2], string(data[3 : 3+n])})
			data = data[3+n:]
		}
		build(t, kernelInfo(0x1000), lines...)
	})
}

// TestLookupInCrowdedBucket verifies lookups if half of the symbols are in one bucket of the index,
// whose width is based on the average.
func TestLookupInCrowdedBucket(t *testing.T) {
	var lines []line
	for i := range uint64(1000) {
		lines = append(lines, line{text + i, 't', fmt.Sprintf("dense_%d", i)})
	}
	for i := range uint64(1000) {
		lines = append(lines, line{text + 1<<20 + i<<10, 't', fmt.Sprintf("sparse_%d", i)})
	}
	m := build(t, kernelInfo(1<<22), lines...)
	require.Greater(t, m.symbols.index[1], uint32(scanWidth*maxScans))
}
