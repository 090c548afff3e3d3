package bpfprog

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// listSymbols has the kernel's list of symbols be what is said.
func listSymbols(t *testing.T, f *follower, lines string) {
	t.Helper()
	f.opts.Procfs = t.TempDir()
	text := "ffffffff81000000 T _text\nffffffff81000040 T _etext\n" + lines
	require.NoError(t, os.WriteFile(filepath.Join(f.opts.Procfs, "kallsyms"), []byte(text), 0o600))
}

// passQuiet has no records have been lost for long enough to read that list.
func passQuiet(f *follower) {
	f.doubts.lost, f.doubts.looked = time.Time{}, time.Time{}
}

// TestTrampolineWhoseEndWasLost is gone when the kernel's list of symbols says so, which
// is read when it is quiet.
func TestTrampolineWhoseEndWasLost(t *testing.T) {
	f := fakeFollower(t, newFakes())
	listSymbols(t, f, "0000000000007000 t bpf_trampoline_6442\t[bpf]\n0000000000009000 t bpf_trampoline_1\t[bpf]\n")
	loaded := now()
	for _, addr := range []uint64{0x5000, 0x7000} {
		f.apply([]perfring.Record{trampoline(loaded, addr, false)})
	}
	f.resyncs.looked(now(), now())
	f.resyncs.looked(now()+int64(settle), now()+int64(settle))
	certain := f.resyncs.certain
	require.Greater(t, certain, loaded)
	f.apply([]perfring.Record{lost(now())})
	catchUp(t, f)
	assert.False(t, f.complete(t.Context()))
	assert.Equal(t, "bpf_trampoline_6442", nameAt(f, 0x5000), "nobody knows yet")
	assert.True(t, f.nextLook(time.Now().Add(time.Hour)).Before(time.Now().Add(quiet)))
	passQuiet(f)
	require.True(t, f.complete(t.Context()))
	assert.Empty(t, nameAt(f, 0x5000))
	assert.Equal(t, certain, f.functions.FreeSince(0x5000, 0x5001), "certain until records were missing")
	assert.Equal(t, "bpf_trampoline_6442", nameThen(f, 0x5000, symtab.Instant(now()-1000)), "perhaps")
	assert.Equal(t, "bpf_trampoline_6442", nameAt(f, 0x7000), "it is still there")
	assert.Equal(t, loaded, f.functions.At(0x7000).Valid.From)
	assert.Equal(t, "bpf_trampoline_1", nameAt(f, 0x9000), "whose beginning was lost")
	require.NoError(t, f.degraded())
	require.False(t, f.doubts.any)
}

// TestTrampolinesThatCannotBeCheckedAreGone has no list of symbols to read, and then
// never a moment to read it.
func TestTrampolinesThatCannotBeCheckedAreGone(t *testing.T) {
	f := fakeFollower(t, newFakes())
	f.opts.Procfs = t.TempDir()
	f.apply([]perfring.Record{trampoline(now(), 0x5000, false), lost(now())})
	catchUp(t, f)
	passQuiet(f)
	require.True(t, f.complete(t.Context()))
	assert.Empty(t, nameAt(f, 0x5000))
	require.ErrorIs(t, f.degraded(), os.ErrNotExist)

	listSymbols(t, f, "0000000000006000 t bpf_trampoline_6442\t[bpf]\n")
	f.apply([]perfring.Record{trampoline(now(), 0x6000, false), lost(now())})
	catchUp(t, f)
	f.doubts.began = f.doubts.began.Add(-doubtAtMost)
	require.True(t, f.complete(t.Context()))
	assert.Empty(t, nameAt(f, 0x6000))
	passQuiet(f)
	require.True(t, f.complete(t.Context()))
	assert.Equal(t, "bpf_trampoline_6442", nameAt(f, 0x6000), "it was there, after all")
	require.NoError(t, f.degraded())
}

// TestSymbolsAreNotReadForPrograms has records of programs be lost, and a trampoline
// come after that.
func TestSymbolsAreNotReadForPrograms(t *testing.T) {
	f := fakeFollower(t, newFakes(prog(1, 1, 0, 0x1000)))
	f.opts.Procfs = t.TempDir() // where there is no list
	f.apply([]perfring.Record{lost(now())})
	f.apply([]perfring.Record{trampoline(later(), 0x5000, false)})
	catchUp(t, f)
	passQuiet(f)
	assert.False(t, f.complete(t.Context()))
	assert.False(t, f.doubts.any)
	require.NoError(t, f.degraded())
	assert.Equal(t, "bpf_trampoline_6442", nameAt(f, 0x5000))
}

// TestOthersAreSeenLate has the list of symbols be read after a program was where a
// trampoline is now, first of all or once more.
func TestOthersAreSeenLate(t *testing.T) {
	for name, later := range map[string]bool{"first": false, "once more": true} {
		t.Run(name, func(t *testing.T) {
			f := fakeFollower(t, newFakes())
			f.doubts.later = later
			listSymbols(t, f, "ffffffffc0001000 t bpf_trampoline_7\t[bpf]\nffffffffc0009000 t bpf_trampoline_9\t[bpf]\n")
			p := prog(1, 1, 0, 0xffffffffc0001000)
			began := now()
			f.apply(loads(began, p))
			f.apply(unloads(now(), p))
			require.NoError(t, f.readOthers(t.Context()))
			assert.Equal(t, symbolOf(p, 0), nameThen(f, 0xffffffffc0001000, symtab.Instant(began)))
			assert.Equal(t, "bpf_trampoline_7", nameAt(f, 0xffffffffc0001000))
			sym, ok := f.table().Lookup(0xffffffffc0009000, symtab.Now)
			require.True(t, ok)
			assert.Equal(t, !later, sym.Function.Valid == symtab.Always)
			if later {
				assert.InDelta(t, f.began, earliest(sym.Function), 1000)
			}
		})
	}
}
