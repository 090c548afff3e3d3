// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/btf"
	"github.com/kernelsym/kernelsym/internal/btf/btftest"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// keyFor returns the key of a function of the kernel.
func keyFor(object, typ uint32) timeline.TrampolineKey {
	return timeline.TrampolineKey(uint64(object)<<32 | 1<<31 | uint64(typ))
}

// writeCoreBTF writes the BTF of a core kernel, whose types are 1, a prototype, 2 and 3, the functions first and second. It
// returns the root of sysfs.
func writeCoreBTF(t *testing.T) (sysfs string) {
	t.Helper()
	sysfs = t.TempDir()
	dir := filepath.Join(sysfs, "kernel", "btf")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	const strings = "\x00first\x00second\x00"
	types := btftest.Type(0, 13, 0)
	types = append(types, btftest.Type(1, uint8(btf.KindFunc), 0)...)
	types = append(types, btftest.Type(7, uint8(btf.KindFunc), 0)...)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "vmlinux"), btftest.File(types, strings), 0o600))
	return sysfs
}

// withModules returns programs, and two modules that both have a function with type 4.
func withModules() *fakePrograms {
	all := newFakes()
	all.modules = map[uint32]fakeModule{
		17: {"nf_tables", btftest.File(btftest.Type(14, uint8(btf.KindFunc), 0), "nft_do_chain\x00")},
		18: {"ext4", btftest.File(btftest.Type(14, uint8(btf.KindFunc), 0), "ext4_write\x00")},
	}
	return all
}

// TestTracedFunctions verifies which function a key stands for: the number of a type says whether it is in the core
// kernel's BTF, and else the BTF object says in which module's.
func TestTracedFunctions(t *testing.T) {
	finder := functionFinder{programs: withModules(), sysfs: writeCoreBTF(t)}
	cases := map[timeline.TrampolineKey]timeline.TracedFunction{
		keyFor(1, 2):  {Image: timeline.KernelName, Name: "first"},
		keyFor(5, 3):  {Image: timeline.KernelName, Name: "second"}, // the core kernel's object is not always 1
		keyFor(1, 1):  {},                                           // no function
		keyFor(17, 4): {Image: "nf_tables", Name: "nft_do_chain"},
		keyFor(18, 4): {Image: "ext4", Name: "ext4_write"},
		keyFor(18, 5): {}, // a type that it does not have
		keyFor(99, 4): {}, // was unloaded
	}
	var keys []timeline.TrampolineKey
	for key := range cases {
		keys = append(keys, key)
	}
	found, err := finder.find(keys)
	require.NoError(t, err)
	assert.Equal(t, cases, found)
}

// TestTracedFunctionsThatCannotBeFound verifies that only keys get an answer for which there certainly is one, and that the
// error says why others get none.
func TestTracedFunctionsThatCannotBeFound(t *testing.T) {
	refused := withModules()
	refused.err = bpf.ErrPermission
	finder := functionFinder{programs: refused, sysfs: writeCoreBTF(t)}
	found, err := finder.find([]timeline.TrampolineKey{keyFor(1, 2), keyFor(17, 4)})
	require.ErrorIs(t, err, bpf.ErrPermission)
	assert.Equal(t, map[timeline.TrampolineKey]timeline.TracedFunction{
		keyFor(1, 2): {Image: timeline.KernelName, Name: "first"},
	}, found)

	finder.sysfs = t.TempDir()
	found, err = finder.find([]timeline.TrampolineKey{keyFor(1, 2)})
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.Empty(t, found)

	finder.sysfs = writeCoreBTF(t)
	require.NoError(t, os.WriteFile(filepath.Join(finder.sysfs, "kernel", "btf", "vmlinux"), []byte("no BTF"), 0o600))
	found, err = finder.find([]timeline.TrampolineKey{keyFor(1, 2)})
	require.ErrorIs(t, err, btf.ErrMalformed)
	assert.Empty(t, found)
}

// TestTrampolinesOfUnknownFunctions verifies that the status says how many loaded trampolines have no name because their
// functions cannot be found, and for how long.
func TestTrampolinesOfUnknownFunctions(t *testing.T) {
	all := withModules()
	r := newTestSource(t, all)
	r.run.functions.sysfs = writeCoreBTF(t)
	trampoline := func(key timeline.TrampolineKey, addr uint64, unregister bool) perfring.Record {
		return ksymbol(r.now(), addr, fmt.Sprintf("bpf_trampoline_%d", key), unregister)
	}
	traces := func(addr uint64) (found timeline.TracedFunction) {
		key, _ := timeline.KeyOf(r.nameAt(addr))
		return r.state.follower.traced.functions[key]
	}
	r.emit(trampoline(keyFor(1, 2), 0x1000, false), trampoline(keyFor(17, 4), 0x2000, false))
	require.NoError(t, r.err)
	assert.Equal(t, timeline.TracedFunction{Image: timeline.KernelName, Name: "first"}, traces(0x1000))
	assert.Equal(t, timeline.TracedFunction{Image: "nf_tables", Name: "nft_do_chain"}, traces(0x2000))

	all.err = bpf.ErrPermission
	r.emit(trampoline(keyFor(18, 4), 0x3000, false))
	require.ErrorIs(t, r.err, bpf.ErrPermission)
	require.ErrorContains(t, r.err, "1 trampolines")
	r.emit(trampoline(keyFor(18, 4), 0x3000, true))
	r.findTraced()
	require.NoError(t, r.err)
}

// findTraced lets enough time pass for functions to be tried again.
func (r *testSource) findTraced() {
	require.WithinDuration(r.t, time.Now().Add(retryEvery), r.state.follower.traced.findAt, retryEvery)
	r.state.follower.traced.findAt = time.Time{}
	r.round(r.t.Context())
}

// TestTracedFunctionIsTriedAgain verifies that a function that could not be found for a while is found afterwards, and that
// another load of its trampoline alone does not have it tried.
func TestTracedFunctionIsTriedAgain(t *testing.T) {
	r := newTestSource(t, withModules())
	sysfs := r.run.functions.sysfs
	r.run.functions.sysfs = t.TempDir()
	const name = "bpf_trampoline_6442450946" // keyFor(1, 2)
	r.emit(ksymbol(r.now(), 0x1000, name, false))
	require.ErrorIs(t, r.err, os.ErrNotExist)
	require.ErrorContains(t, r.err, "1 trampolines")
	assert.Empty(t, r.state.follower.traced.functions)

	r.run.functions.sysfs = sysfs
	r.emit(ksymbol(r.now(), 0x1000, name, true), ksymbol(r.now(), 0x2000, name, false))
	require.ErrorIs(t, r.err, os.ErrNotExist)
	r.findTraced()
	require.NoError(t, r.err)
	assert.Equal(t, "first", r.state.follower.traced.functions[keyFor(1, 2)].Name)
	assert.Equal(t, never, r.state.follower.traced.findAt)
}

// TestTrampolineLoadedWhileFunctionsAreFound verifies that the functions of trampolines are found at once, even if they
// are loaded while those of others cannot be found.
func TestTrampolineLoadedWhileFunctionsAreFound(t *testing.T) {
	f := newFollower(true, timeline.Limits{})
	load := func(key timeline.TrampolineKey, addr uint64) {
		rec := ksymbol(0, addr, fmt.Sprintf("bpf_trampoline_%d", key), false)
		f.handleLoad(&rec)
	}
	load(keyFor(17, 4), 0x1000)
	assert.Len(t, f.untraced(), 1)
	f.traced.findAt = never
	load(keyFor(1, 2), 0x2000)
	assert.Equal(t, 2, f.handleTraced(nil))
	assert.Zero(t, f.traced.findAt)
}

// TestManyTracedFunctions verifies that functions of loaded trampolines are kept, however many have been known.
func TestManyTracedFunctions(t *testing.T) {
	f := newFollower(true, timeline.Limits{})
	rec := ksymbol(0, 0x1000, fmt.Sprintf("bpf_trampoline_%d", keyFor(1, 2)), false)
	f.handleLoad(&rec)
	loaded := map[timeline.TrampolineKey]timeline.TracedFunction{keyFor(1, 2): {Image: timeline.KernelName, Name: "first"}}
	assert.Zero(t, f.handleTraced(loaded))
	gone := make(map[timeline.TrampolineKey]timeline.TracedFunction)
	for i := range uint32(maxTraced) {
		gone[keyFor(17, i)] = timeline.TracedFunction{}
	}
	assert.Zero(t, f.handleTraced(gone))
	assert.Equal(t, loaded, f.traced.functions)
}
