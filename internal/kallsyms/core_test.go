// SPDX-License-Identifier: Apache-2.0

package kallsyms

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

const small = `0000000000001000 A cpu_number
ffffffff81000000 T startup_64
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000040 T secondary_startup_64
ffffffff81000100 t __pfx_first
ffffffff81000110 t first
ffffffff81000180 T last
ffffffff81000200 T _etext
ffffffff81400000 D __start_rodata
ffffffff83783000 T _sinittext
ffffffff83783000 B __init_begin
ffffffff83783010 t init_function
ffffffff83783040 T _einittext
ffffffff83783040 D after_init
ffffffffc0201000 t f	[ext4]
`

func names(m *timeline.Image) (names []string) {
	for i := range m.Len() {
		names = append(names, m.Text.Name(m.Text.Symbol(i)).System)
	}
	return names
}

func TestParseCore(t *testing.T) {
	m, err := ParseCore(strings.NewReader(small), "arm64", "0123", "4567")
	require.NoError(t, err)
	assert.Equal(t, "vmlinux", m.Name())
	assert.Equal(t, timeline.OriginKernel, m.Origin)
	assert.Equal(t, timeline.Always, m.Lifetime)
	assert.Equal(t, "0123", m.BuildID())
	assert.Equal(t, "4567", m.Text.FileID)
	assert.Equal(t, &symtab.Landmarks{Arch: "arm64"}, m.Text.Landmarks)
	assert.Equal(t, []string{"startup_64", "secondary_startup_64", "first", "last", "init_function"}, names(m))
}

func TestContract_3_2_InitTextIsCovered(t *testing.T) {
	m, err := ParseCore(strings.NewReader(small), "amd64", "", "")
	require.NoError(t, err)
	assert.Equal(t, uint64(0xffffffff81000000), m.Base())
	assert.Equal(t, uint64(0xffffffff81000000), m.Start)
	assert.Equal(t, uint64(0xffffffff83783040), m.End, "_einittext")
	assert.Equal(t, symtab.Range{Start: 0xffffffff81000200, End: 0xffffffff83783000}, m.Text.Gap)
	for addr, want := range map[uint64]string{
		0xffffffff810001ff: "last",
		0xffffffff81000200: "", // _etext
		0xffffffff81400000: "", // data
		0xffffffff83782fff: "",
		0xffffffff83783000: "", // _sinittext, padding
		0xffffffff83783010: "init_function",
		0xffffffff8378303f: "init_function",
		0xffffffff83783040: "", // _einittext
	} {
		assert.Equal(t, want, lookup(m, addr), "%#x", addr)
	}
}

// lookup returns the name of the symbol at an address, or "" if there is none.
func lookup(m *timeline.Image, addr uint64) string {
	hit, _ := timeline.NewSnapshot(timeline.NewTable(m)).At(addr, timeline.Always)
	if !hit.Symbol.Exists() {
		return ""
	}
	return hit.Name().System
}

func TestInitTextElsewhere(t *testing.T) {
	for name, tt := range map[string]struct {
		list string
		end  uint64
	}{
		"none":          {"ffff800080000000 T _text\nffff800080000010 T f\nffff800080000100 T _etext\nffff800080000200 D data\n", 0xffff800080000100},
		"none, modules": {"ffff800080000000 T _text\nffff800080000010 T f\nffff800080000100 T _etext\nffff800080000200 T _sinittext\t[m]\n", 0xffff800080000100},
		"below the text": {"ffff700080000000 T _sinittext\nffff700080000010 t g\nffff700080000020 T _einittext\n" +
			"ffff800080000000 T _text\nffff800080000010 T f\nffff800080000100 T _etext\n", 0xffff800080000100},
		"right behind": {"ffff800080000000 T _text\nffff800080000010 T f\nffff800080000100 T _etext\nffff800080000100 T _sinittext\n" +
			"ffff800080000200 T _einittext\n", 0xffff800080000200},
		"DOS lines": {"ffff800080000000 T _text\r\nffff800080000010 T f\r\nffff800080000100 T _etext\r\nffff800080000180 D x\r\n" +
			"ffff800080000200 T _sinittext\r\nffff800080000300 T _einittext\r\n", 0xffff800080000300},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := ParseCore(strings.NewReader(tt.list), "arm64", "", "")
			require.NoError(t, err)
			assert.Equal(t, tt.end, m.End)
			assert.Equal(t, []string{"f"}, names(m))
		})
	}
}

func TestLandmarks(t *testing.T) {
	const list = `ffffffff81000000 T _text
ffffffff81000010 T __entry_text_start
ffffffff81000080 T entry_SYSCALL_64
ffffffff81001a87 T __entry_text_end
ffffffff81002000 T asm_fred_entrypoint_user
ffffffff81002100 T asm_fred_entrypoint_kernel
ffffffff81002140 T next
ffffffff81003000 %s arch_alloc_bpf_trampoline
ffffffff81004000 T _etext
`
	for typ, shared := range map[string]bool{"T": true, "t": true, "W": false, "w": false} {
		m, err := ParseCore(strings.NewReader(fmt.Sprintf(list, typ)), "amd64", "", "")
		require.NoError(t, err)
		assert.Equal(t, &symtab.Landmarks{
			Arch:              "amd64",
			Entry:             symtab.Range{Start: 0xffffffff81000010, End: 0xffffffff81001a87},
			Fred:              symtab.Range{Start: 0xffffffff81002100, End: 0xffffffff81002140},
			SharedTrampolines: shared,
		}, m.Text.Landmarks, "type %s", typ)
	}
}

func TestParseCoreReadsNoFurtherThanInitText(t *testing.T) {
	r := strings.NewReader(small + strings.Repeat("ffffffffc0000000 t bpf_prog_0123456789abcdef_f\t[bpf]\n", 1000))
	_, err := ParseCore(r, "amd64", "", "")
	require.NoError(t, err)
	assert.Greater(t, r.Len(), 30_000, "bytes left")
}

func TestContract_2_BaseIsTheLowerOfTextAndStext(t *testing.T) {
	for name, list := range map[string]string{
		"arm64":        "ffff800080000000 T _text\nffff800080000040 t head\nffff800080010000 T _stext\nffff800080010000 T f\nffff800080020000 T _etext\n",
		"only _text":   "ffff800080000000 T _text\nffff800080000040 t head\nffff800080010000 T f\nffff800080020000 T _etext\n",
		"only _stext":  "ffff800080000000 T _stext\nffff800080000040 t head\nffff800080010000 T f\nffff800080020000 T _etext\n",
		"_etext is D":  "ffff800080000000 T _text\nffff800080000040 t head\nffff800080010000 T f\nffff800080020000 D _etext\n",
		"code before":  "ffff700080000000 t early\nffff800080000000 T _text\nffff800080000040 t head\nffff800080010000 T f\nffff800080020000 T _etext\n",
		"low code":     "0000000000000000 t percpu_code\nffff800080000000 T _text\nffff800080000040 t head\nffff800080010000 T f\nffff800080020000 T _etext\n",
		"name at text": "ffff800080000000 T _text\nffff800080000040 t head\nffff800080010000 T f\nffff800080020000 T behind\nffff800080020000 T _etext\n",
	} {
		t.Run(name, func(t *testing.T) {
			m, err := ParseCore(strings.NewReader(list), "amd64", "", "")
			require.NoError(t, err)
			assert.Equal(t, uint64(0xffff800080000000), m.Base())
			assert.Equal(t, []string{"head", "f"}, names(m))
		})
	}
}

// before returns the part of s before the first sep.
func before(s, sep string) string {
	s, _, _ = strings.Cut(s, sep)
	return s
}

func TestParseCoreErrors(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	hidden := ""
	for line := range strings.Lines(small) {
		hidden += "0000000000000000" + line[16:]
	}
	for _, tt := range []struct {
		name, input string
		want        error
	}{
		{"hidden addresses", hidden, ErrRestricted},
		{"hidden addresses without marks", "0000000000000000 T f\n0000000000000000 T g\n", ErrRestricted},
		{"empty file", "", ErrNoText},
		{"cut off in a line", before(small, "0 t first"), ErrSyntax},
		{"cut off before _etext", before(small, "ffffffff81000180 T last"), ErrNoText},
		{"cut off in init text", before(small, "ffffffff83783040 T"), ErrNoText},
		{"no text marks", "ffffffff81000000 T f\nffffffff81000010 T g\n", ErrNoText},
		{"only modules", "ffffffffc0201000 t f\t[ext4]\n", ErrNoText},
		{"not sorted", "ffffffff81000000 T _text\nffffffff81000020 T f\nffffffff81000010 T g\nffffffff81000030 T _etext\n", symtab.ErrOrder},
		{"end below start", "ffffffff81000000 T _text\nffffffff80000000 T _etext\n", symtab.ErrOrder},
		{"something else", "<html>", ErrSyntax},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseCore(strings.NewReader(tt.input), "amd64", "", "")
			require.ErrorIs(t, err, tt.want)
		})
	}
	_, err := ParseCore(strings.NewReader(hidden), "amd64", "", "")
	require.ErrorContains(t, err, "kernel.kptr_restrict")
	assert.ErrorContains(t, err, "CAP_SYSLOG")
}

// TestHiddenAddressesAreSeenAtOnce: a kernel that hides its addresses still formats its whole
// list for readers that continue.
func TestHiddenAddressesAreSeenAtOnce(t *testing.T) {
	r := strings.NewReader("0000000000000000 T _stext\n" + strings.Repeat("0000000000000000 t f\n", 100_000))
	_, err := ParseCore(r, "amd64", "", "")
	require.ErrorIs(t, err, ErrRestricted)
	assert.Greater(t, r.Len(), 1_000_000, "bytes left")
}

func captured(t testing.TB) []byte {
	t.Helper()
	list, err := os.ReadFile("testdata/x86_64-6.18.kallsyms")
	require.NoError(t, err)
	return list
}

// TestParseCaptured looks up, in a list captured from a running kernel, the
// places where other tools go wrong.
func TestParseCaptured(t *testing.T) {
	m, err := ParseCore(bytes.NewReader(captured(t)), "amd64", "", "")
	require.NoError(t, err)
	assert.Equal(t, symtab.Range{Start: 0xffffffff81000010, End: 0xffffffff81001a87}, m.Text.Landmarks.Entry)
	assert.Empty(t, m.Text.Landmarks.Fred, "the list has not all symbols")
	for _, tt := range []struct {
		addr uint64
		want string
	}{
		{0xffffffff81000000, "srso_alias_untrain_ret"},           // aliased by _stext and _text
		{0xffffffff81000010, ""},                                 // __entry_text_start
		{0xffffffff81000080, "entry_SYSCALL_64"},                 //
		{0xffffffff81000f6f, "asm_sysvec_kvm_asyncpf_interrupt"}, //
		{0xffffffff81001a87, ""},                                 // __entry_text_end, 1 MiB of padding
		{0xffffffff81104103, ""},                                 //
		{0xffffffff81104104, "srso_alias_safe_ret"},              //
		{0xffffffff821f7645, ""},                                 // __noinstr_text_end
		{0xffffffff82204bc0, "__x86_indirect_thunk_array"},       // after its twin __pi___x86_indirect_thunk_rax
		{0xffffffff8220bb08, ""},                                 // _etext
	} {
		assert.Equal(t, tt.want, lookup(m, tt.addr), "%#x", tt.addr)
	}
}

// TestContract_2_3_Thunks: thunks are recognized by any of their names, but only on x86: on
// arm64, "its" is an interrupt controller.
func TestContract_2_3_Thunks(t *testing.T) {
	m, err := ParseCore(bytes.NewReader(captured(t)), "amd64", "", "")
	require.NoError(t, err)
	assert.Equal(t, []symtab.Range{
		{Start: 0xffffffff81000000, End: 0xffffffff81000010}, // srso_alias_untrain_ret
		{Start: 0xffffffff81104104, End: 0xffffffff81200000}, // srso_alias_safe_ret, srso_alias_return_thunk
		{Start: 0xffffffff82204bc0, End: 0xffffffff8220ba38}, // eight of __x86_indirect_thunk_*
	}, m.Text.Landmarks.Thunks)

	m, err = ParseCore(bytes.NewReader(captured(t)), "arm64", "", "")
	require.NoError(t, err)
	assert.Empty(t, m.Text.Landmarks.Thunks)
}

// FuzzParseCore: any bytes result in a valid table, or in an error.
func FuzzParseCore(f *testing.F) {
	kerneltest.SameInEachKernel(f)
	f.Add([]byte(small))
	f.Add(captured(f))
	f.Add([]byte("0000000000000000 T _text\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseCore(bytes.NewReader(data), "amd64", "", "")
		if err != nil {
			return
		}
		last := m.Start
		for i := range m.Len() {
			s := m.Text.Symbol(i)
			if s.Start < last || s.Start >= s.End() || s.End() > m.End || m.Text.Gap.Contains(s.Start) || m.Text.Gap.Contains(s.End()-1) || m.Text.Name(s).System == "" {
				t.Fatalf("symbol %d: %#x-%#x %q after %#x", i, s.Start, s.End(), m.Text.Name(s).System, last)
			}
			for _, addr := range []uint64{s.Start, s.End() - 1} {
				if got := m.Lookup(addr); got != s {
					t.Fatalf("symbol %d is not found at %#x", i, addr)
				}
			}
			last = s.End()
		}
	})
}

// FuzzScanner: any bytes result in lines, then an error. Skipping finds the same lines as
// scanning.
func FuzzScanner(f *testing.F) {
	kerneltest.SameInEachKernel(f)
	f.Add([]byte(small))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines, err := scanAll(bytes.NewReader(data))
		if err == nil {
			t.Fatal("no end")
		}
		s := NewScanner(bytes.NewReader(data))
		if s.SkipToModules() != nil {
			return
		}
		var line Line
		if s.Scan(&line) != nil {
			return
		}
		for _, l := range lines {
			if l.module != "" {
				if l.name != string(line.Name) || l.module != string(line.Module) {
					t.Fatalf("skipped to %q, not to %q", line.Name, l.name)
				}
				return
			}
		}
		if errors.Is(err, io.EOF) {
			t.Fatalf("skipped to %q, which scanning did not find", line.Name)
		}
	})
}
