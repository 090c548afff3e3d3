package bpfprog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

const someSymbols = `ffffffff81000000 T _text
ffffffff81100000 T _etext
ffffffffc0900000 t veth_open	[veth]
ffffffffc0a01000 t ftrace_trampoline	[__builtin__ftrace]
ffffffffc0a02000 t bpf_prog_0123456789abcdef_main	[bpf]
ffffffffc0a02000 t bpf_prog_0123456789abcdef_main	[bpf]
ffffffffc0a02080 t bpf_prog_fedcba9876543210	[bpf]
ffffffffc0a03000 t bpf_trampoline_6442491235	[bpf]
ffffffffc0a03200 t bpf_dispatcher_xdp	[bpf]
ffffffffc0a04000 d bpf_data	[bpf]
ffffffffc0a05000 t kprobe_insn_page	[__builtin__kprobes]
`

// baseline returns a follower that has read a list of symbols, if programs are listed
// or if that fails.
func baseline(t *testing.T, list string, listErr error) *follower {
	t.Helper()
	f := fakeFollower(t, newFakes())
	f.listErr = listErr
	f.opts.Procfs = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(f.opts.Procfs, "kallsyms"), []byte(list), 0o600))
	f.othersErr = f.readOthers(t.Context())
	return f
}

func TestOthers(t *testing.T) {
	f := baseline(t, someSymbols, nil)
	require.NoError(t, f.degraded())
	for addr, want := range map[uint64]string{
		0xffffffffc0a01000: "ftrace_trampoline",
		0xffffffffc0a02000: "", // which the list of programs would have
		0xffffffffc0a03000: "bpf_trampoline_6442491235",
		0xffffffffc0a031ff: "bpf_trampoline_6442491235",
		0xffffffffc0a03200: "bpf_dispatcher_xdp",
		0xffffffffc0a041ff: "bpf_dispatcher_xdp",
		0xffffffffc0a04200: "",
		0xffffffffc0a05fff: "kprobe_insn_page",
		0xffffffffc0a06000: "",
		0xffffffffc0900000: "",
	} {
		assert.Equal(t, want, nameAt(f, addr), "%x", addr)
	}
	assert.Equal(t, [symtab.NumOrigins]int{symtab.OriginTrampoline: 2, symtab.OriginOOL: 2}, f.table().Symbols())

	f = baseline(t, someSymbols, bpf.ErrPermission)
	require.ErrorIs(t, f.degraded(), bpf.ErrPermission)
	assert.Equal(t, "bpf_prog_0123456789abcdef_main", nameAt(f, 0xffffffffc0a0207f))
	assert.Equal(t, "bpf_prog_fedcba9876543210", nameAt(f, 0xffffffffc0a02080))
	assert.Equal(t, "bpf_trampoline_6442491235", nameAt(f, 0xffffffffc0a03000))
}

// TestRecordsKnowBetter has the kernel's list tell once more what records have named.
func TestRecordsKnowBetter(t *testing.T) {
	a := prog(1, 1, 0, 0xffffffffc0a02000)
	f := fakeFollower(t, newFakes())
	f.apply(loads(later(), a))
	f.listErr = bpf.ErrPermission
	f.opts.Procfs = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(f.opts.Procfs, "kallsyms"), []byte(someSymbols), 0o600))
	require.NoError(t, f.readOthers(t.Context()))
	assert.Equal(t, symbolOf(a, 0), nameAt(f, 0xffffffffc0a02000))
	assert.Empty(t, nameAt(f, 0xffffffffc0a02040), "its end is known")
}

func TestOthersErrors(t *testing.T) {
	hidden := strings.NewReplacer("ffffffff", "00000000", "c0a0", "0000", "c09", "000").Replace(someSymbols)
	hidden = strings.NewReplacer("1000 ", "0000 ", "2000 ", "0000 ", "2080 ", "0000 ", "3000 ", "0000 ", "3200 ", "0000 ", "4000 ", "0000 ", "5000 ", "0000 ").Replace(hidden)
	f := baseline(t, hidden, nil)
	require.ErrorIs(t, f.degraded(), kallsyms.ErrRestricted)
	require.ErrorContains(t, f.degraded(), "trampolines that were there before the start have no names")
	assert.Zero(t, f.table().Symbols())

	// When they are hidden no more, they are read.
	require.NoError(t, os.WriteFile(filepath.Join(f.opts.Procfs, "kallsyms"), []byte(someSymbols), 0o600))
	f.resyncs.next = f.resyncs.next.AddDate(-1, 0, 0)
	assert.True(t, f.complete(t.Context()))
	require.NoError(t, f.degraded())
	assert.Equal(t, "bpf_dispatcher_xdp", nameAt(f, 0xffffffffc0a03200))

	f = baseline(t, someSymbols+"what is this\n", nil)
	require.ErrorIs(t, f.degraded(), kallsyms.ErrSyntax)
	assert.Equal(t, "kprobe_insn_page", nameAt(f, 0xffffffffc0a05000), "what was read before")

	others, err := parseOthers(strings.NewReader(someSymbols), func() bool { return true })
	require.ErrorIs(t, err, errBudget)
	assert.Empty(t, others)

	f.opts.Procfs = t.TempDir()
	require.ErrorIs(t, f.readOthers(t.Context()), os.ErrNotExist)
}
