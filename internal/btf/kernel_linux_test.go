// SPDX-License-Identifier: Apache-2.0

package btf

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	ciliumbtf "github.com/cilium/ebpf/btf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRunningKernel reads the BTF of the running kernel and, if it has modules, of one of them,
// and finds the same functions as another reader.
func TestRunningKernel(t *testing.T) {
	const dir = "/sys/kernel/btf"
	data, err := os.ReadFile(filepath.Join(dir, "vmlinux"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("this kernel has no BTF: its functions are not compared with another reader's")
	}
	require.NoError(t, err)
	kernel, err := Parse(data)
	require.NoError(t, err)
	spec, err := ciliumbtf.LoadKernelSpec()
	require.NoError(t, err)
	compare(t, spec, kernel)

	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range files {
		if f.Name() == "vmlinux" || filepath.Ext(f.Name()) == ".inline" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		module, err := ParseSplit(data, kernel)
		require.NoError(t, err)
		spec, err := ciliumbtf.LoadKernelModuleSpec(f.Name())
		require.NoError(t, err)
		compare(t, spec, module)
		return
	}
}

// compare compares the functions of b, but not of its base.
func compare(t *testing.T, spec *ciliumbtf.Spec, b *BTF) {
	t.Helper()
	names, err := namesOf(b)
	require.NoError(t, err)
	want := make(map[uint32]string, len(names))
	for typ, err := range spec.All() {
		require.NoError(t, err)
		f, ok := typ.(*ciliumbtf.Func)
		if !ok {
			continue
		}
		id, err := spec.TypeID(f)
		require.NoError(t, err)
		want[uint32(id)] = f.Name
	}
	assert.Equal(t, want, names)
}
