// SPDX-License-Identifier: Apache-2.0

package packer_test

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packer"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

const symbolList = `ffffffff81000000 T _text
ffffffff81000000 T _stext
ffffffff81000010 T first
ffffffff81000010 T alias
ffffffff81000040 t second
ffffffff81000100 T _etext
`

// withoutBPF returns the snapshot of the running core kernel and its modules. BPF programs are left
// out because, with many of them (other tests load some, too), not all may be known.
func withoutBPF(t *testing.T) *timeline.Snapshot {
	t.Helper()
	from := sources.Everything("/proc", "/sys")
	from.BPF.Enabled = false
	snapshot, err := symcache.Load(t.Context(), sources.List(from)...)
	require.NoError(t, err)
	return snapshot
}

// machine makes the files of a running kernel.
func machine(t *testing.T, list string) (procfs, sysfs string) {
	t.Helper()
	root := t.TempDir()
	procfs, sysfs = filepath.Join(root, "proc"), filepath.Join(root, "sys")
	write(t, filepath.Join(procfs, "kallsyms"), []byte(list))
	write(t, filepath.Join(procfs, "modules"), nil)
	write(t, filepath.Join(procfs, "sys/kernel/osrelease"), []byte(release+"\n"))
	write(t, filepath.Join(sysfs, "kernel/notes"), notes(t, coreID))
	return procfs, sysfs
}

func TestRunning(t *testing.T) {
	procfs, sysfs := machine(t, symbolList)
	out := t.TempDir()
	result, err := packer.Running(t.Context(), procfs, sysfs, packer.Options{Dir: out})
	require.NoError(t, err)
	assert.Equal(t, 1, result.Packs)
	p := read(t, out, coreID)
	assert.Equal(t, &pack.Info{
		BuildID: coreID, Name: "vmlinux", Arch: runtime.GOARCH, Release: release, Extent: pack.Range{End: 0x100},
	}, p.Info())
	var symbols []pack.Symbol
	for s := range p.Symbols() {
		symbols = append(symbols, s)
	}
	assert.Equal(t, []pack.Symbol{
		{Range: pack.Range{Start: 0x10, End: 0x40}, Name: "first", Folded: true},
		{Range: pack.Range{Start: 0x40, End: 0x100}, Name: "second"},
	}, symbols)
}

func TestRunningKeepsLines(t *testing.T) {
	procfs, sysfs := machine(t, symbolList)
	core, out := filepath.Join(t.TempDir(), "vmlinux"), t.TempDir()
	buildCore(t, core)
	_, err := packer.Run(t.Context(), packer.Files([]string{core}), packer.Options{Dir: out})
	require.NoError(t, err)
	result, err := packer.Running(t.Context(), procfs, sysfs, packer.Options{Dir: out})
	require.NoError(t, err)
	assert.Equal(t, packer.Result{Kept: 1}, result)
	assert.True(t, read(t, out, coreID).HasLines())
}

func TestRunningWithoutAddressesSaysWhatToGrant(t *testing.T) {
	procfs, sysfs := machine(t, "0000000000000000 T _text\n0000000000000000 T first\n0000000000000000 T _etext\n")
	out := t.TempDir()
	_, err := packer.Running(t.Context(), procfs, sysfs, packer.Options{Dir: out})
	require.ErrorIs(t, err, kallsyms.ErrRestricted)
	require.ErrorContains(t, err, "CAP_SYSLOG")
	assert.Empty(t, files(t, out))
}

// TestRunningKernel compares the packs of the running kernel with its tables.
func TestRunningKernel(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.NeedAddresses(t)
	out := t.TempDir()
	_, err := packer.Running(t.Context(), "/proc", "/sys", packer.Options{Dir: out})
	require.NoError(t, err)
	snapshot := withoutBPF(t)
	core := snapshot.Core()
	require.NotNil(t, core)
	p := read(t, out, core.BuildID())
	require.Equal(t, core.Len(), p.NumSymbols())
	i, different := 0, 0
	for s := range p.Symbols() {
		want := core.Text.Symbol(i)
		if name := core.Text.Name(want); s.Name != name.System || s.Folded != name.Folded ||
			core.Base()+uint64(s.Range.Start) != want.Start || core.Base()+uint64(s.Range.End) != want.End() {
			different++
		}
		i++
	}
	assert.Zero(t, different)
}
