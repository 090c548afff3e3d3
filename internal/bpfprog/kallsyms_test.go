// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

const someSymbols = `ffffffffc0900000 t veth_open	[veth]
ffffffffc0a01000 t ftrace_trampoline	[__builtin__ftrace]
ffffffffc0a02000 t bpf_prog_0123456789abcdef_main	[bpf]
ffffffffc0a02000 t bpf_prog_0123456789abcdef_main	[bpf]
ffffffffc0a02080 t bpf_prog_fedcba9876543210	[bpf]
ffffffffc0a03000 t bpf_trampoline_6442491235	[bpf]
ffffffffc0a03200 t bpf_trampoline_7	[bpf]
ffffffffc0a04000 d bpf_data	[bpf]
ffffffffc0a05000 t kprobe_insn_page	[__builtin__kprobes]
ffffffffc0a07000 t bpf_dispatcher_xdp	[bpf]
`

func TestTail(t *testing.T) {
	r := newUnstarted(t, newFakes())
	r.kallsyms(someSymbols)
	r.begin()
	r.round(t.Context())
	require.NoError(t, r.err)
	for addr, want := range map[uint64]string{
		0xffffffffc0a01000: "ftrace_trampoline",
		0xffffffffc0a02000: "", // which the list of programs would have
		0xffffffffc0a03000: "bpf_trampoline_6442491235",
		0xffffffffc0a031ff: "bpf_trampoline_6442491235",
		0xffffffffc0a03200: "bpf_trampoline_7",
		0xffffffffc0a041ff: "bpf_trampoline_7",
		0xffffffffc0a04200: "",
		0xffffffffc0a05fff: "kprobe_insn_page",
		0xffffffffc0a06000: "",
		0xffffffffc0a07fff: "bpf_dispatcher_xdp",
		0xffffffffc0900000: "",
	} {
		assert.Equal(t, want, r.nameAt(addr), "%x", addr)
	}
	count := r.table.Count()
	assert.Equal(t, [...]int{3, 2}, [...]int{count[timeline.OriginTrampoline].Symbols, count[timeline.OriginOOL].Symbols})
}

func TestTailErrors(t *testing.T) {
	r := newUnstarted(t, newFakes())
	r.kallsyms("0000000000000000 t bpf_trampoline_1\t[bpf]\n")
	r.begin()
	r.round(t.Context())
	require.ErrorIs(t, r.err, kallsyms.ErrRestricted)
	require.ErrorContains(t, r.err, "some BPF trampolines and out-of-line pages have no names")
	assert.Empty(t, r.table.Loaded())
	r.kallsyms(someSymbols + "what is this\n") // when they are hidden no more, they are read
	r.readKallsyms()
	require.ErrorIs(t, r.err, kallsyms.ErrSyntax)
	assert.Equal(t, "kprobe_insn_page", r.nameAt(0xffffffffc0a05000), "lines before the syntax error")

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	lines, err := parseTail(canceled, strings.NewReader(someSymbols), budget)
	require.ErrorIs(t, err, errBudget)
	assert.Empty(t, lines.all)
}

// TestTailWithoutBPF verifies that a list without BPF code counts as refused if code is loaded that must be in it, that the
// error names the sysctl where it can be read, and that the pages in the list are used.
func TestTailWithoutBPF(t *testing.T) {
	const page = "ffffffffc0a05000 t kprobe_insn_page\t[__builtin__kprobes]\n"
	nameless := prog(1, 1, 0, 0x1000)
	nameless.Type = 1 // may be loaded without CAP_BPF
	for _, tt := range []struct {
		name     string
		program  *bpf.Program // nil if none is loaded
		sysctls  map[string]string
		kallsyms string
		want     string // the end of the error, empty for none
	}{
		{"the sysctl", prog(1, 1, 0, 0x1000), map[string]string{"bpf_jit_harden": "2\n", "bpf_jit_kallsyms": "1\n"}, page,
			"because the sysctl net.core.bpf_jit_harden is 2"},
		{"the other sysctl", prog(1, 1, 0, 0x1000), map[string]string{"bpf_jit_harden": "0\n", "bpf_jit_kallsyms": "0\n"}, page,
			"because the sysctl net.core.bpf_jit_kallsyms is 0"},
		{"another network namespace", prog(1, 1, 0, 0x1000), nil, page, "possibly because the sysctl net.core.bpf_jit_harden is not 0"},
		{"a program is listed", prog(1, 1, 0, 0x1000), map[string]string{"bpf_jit_harden": "2\n"}, aProgram + page, ""},
		{"only another is listed", prog(1, 1, 0, 0x1000), nil, "ffffffffc0a03200 t bpf_trampoline_7\t[bpf]\n" + page, ""},
		{"a program that may have no symbol", nameless, map[string]string{"bpf_jit_harden": "2\n"}, page, ""},
		{"no program", nil, map[string]string{"bpf_jit_harden": "2\n"}, page, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := newFakes()
			if tt.program != nil {
				all.loaded[tt.program.ID] = tt.program
			}
			r := newUnstarted(t, all)
			sysctls := filepath.Join(r.Source.kallsyms.procfs, "sys/net/core")
			require.NoError(t, os.MkdirAll(sysctls, 0o755))
			for name, value := range tt.sysctls {
				require.NoError(t, os.WriteFile(filepath.Join(sysctls, name), []byte(value), 0o600))
			}
			r.kallsyms(tt.kallsyms)
			r.begin()
			r.round(t.Context())
			assert.Equal(t, "kprobe_insn_page", r.nameAt(0xffffffffc0a05000))
			if tt.want == "" {
				require.NoError(t, r.err)
				return
			}
			require.ErrorIs(t, r.err, kallsyms.ErrBPFHidden)
			require.ErrorContains(t, r.err, "some BPF trampolines and out-of-line pages have no names")
			assert.True(t, strings.HasSuffix(r.err.Error(), tt.want), r.err)

			r.kallsyms(tt.kallsyms + aProgram + "ffffffffc0a03200 t bpf_trampoline_7\t[bpf]\n")
			r.readKallsyms() // after a minute
			require.NoError(t, r.err)
			assert.Equal(t, "bpf_trampoline_7", r.nameAt(0xffffffffc0a03200))
		})
	}
}

// TestTailWithoutBPFYet verifies that a program that was loaded while the list was read need not be in it.
func TestTailWithoutBPFYet(t *testing.T) {
	r := newUnstarted(t, newFakes())
	r.kallsyms("")
	r.begin()
	r.setClock(r.now())
	r.batch.Records = loads(r.now(), prog(1, 1, 0, 0x1000))
	r.round(t.Context())
	require.NoError(t, r.err)
	require.Equal(t, symbolOf(prog(1, 1, 0, 0x1000), 0), r.nameAt(0x1000))
}

// TestTailHiddenAndCutShort: an interrupted reading of a list with hidden addresses is an error, and has no
// symbols.
func TestTailHiddenAndCutShort(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	lines := strings.Repeat("0000000000000000 t bpf_trampoline_1\t[bpf]\n", 100)
	text := io.MultiReader(
		strings.NewReader("ffffffff81000000 T _text\nffffffff81000040 T _etext\n"+lines),
		pacedReader{strings.NewReader(lines), cancel},
	)
	got, err := parseTail(ctx, text, time.Hour)
	require.ErrorIs(t, err, kallsyms.ErrRestricted)
	assert.Empty(t, got.all)
}

// TestTailOverBudget: a reading that took too long is repeated, with growing pauses, until one does not.
func TestTailOverBudget(t *testing.T) {
	r := newUnstarted(t, newFakes())
	r.kallsyms(someSymbols)
	r.Source.kallsyms.budget = -1
	r.begin()
	r.round(t.Context())
	again := func() {
		r.state.kallsyms.lost, r.state.kallsyms.read = time.Time{}, r.state.kallsyms.read.Add(-max(readEvery, r.state.kallsyms.rest))
		r.round(t.Context())
	}
	for _, rest := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		require.ErrorIs(t, r.err, errBudget)
		require.Equal(t, r.state.kallsyms.read.Add(rest*time.Minute), r.state.kallsyms.due())
		again()
	}
	r.state.kallsyms.wanted = true // as records were lost: that is another reason
	require.Equal(t, r.state.kallsyms.read.Add(readEvery), r.state.kallsyms.due())
	r.Source.kallsyms.budget = time.Hour
	again()
	require.NoError(t, r.err)
	assert.Equal(t, "bpf_trampoline_7", r.nameAt(0xffffffffc0a03200))
	assert.Equal(t, never, r.state.kallsyms.due())
}
