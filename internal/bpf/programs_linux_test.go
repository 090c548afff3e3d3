// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"testing"

	ebpfbtf "github.com/cilium/ebpf/btf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/btf"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestModuleBTFLeavesThatOfAProgram reads a program's BTF, then that of the core kernel, which stands for a module here and is
// longer, and uses the first.
func TestModuleBTFLeavesThatOfAProgram(t *testing.T) {
	kerneltest.NeedBPF(t)
	info, err := kerneltest.LoadBPF(t, kerneltest.HotProgram(t)).Info()
	require.NoError(t, err)
	id, ok := info.BTFID()
	require.True(t, ok)
	r := new(Reader)
	types, err := r.BTF(uint32(id))
	require.NoError(t, err)
	before := functionNames(t, types)
	assert.Contains(t, before, "kernelsym_test_hot_program")
	name, _, err := r.ModuleBTF(coreBTF(t), types)
	require.NoError(t, err)
	assert.Equal(t, "vmlinux", name)
	assert.Equal(t, before, functionNames(t, types))
}

func functionNames(t *testing.T, types *btf.BTF) (names []string) {
	t.Helper()
	for is, err := range types.Types() {
		require.NoError(t, err)
		if is.Kind == btf.KindFunc {
			names = append(names, types.Name(is))
		}
	}
	return names
}

// coreBTF returns the id of the core kernel's BTF object. It skips the test on kernels that do not have one.
func coreBTF(t *testing.T) uint32 {
	t.Helper()
	all := new(ebpfbtf.HandleIterator)
	defer func() { _ = all.Handle.Close() }() // nothing was written
	for all.Next() {
		info, err := all.Handle.Info()
		require.NoError(t, err)
		if info.IsVmlinux() {
			return uint32(info.ID)
		}
	}
	require.NoError(t, all.Err())
	if kerneltest.OlderThan(t, 5, 11) {
		t.Skip("the BTF of the kernel and its modules is an object since Linux 5.11: its names are not tested")
	}
	require.Fail(t, "the core kernel has no BTF object")
	return 0
}
