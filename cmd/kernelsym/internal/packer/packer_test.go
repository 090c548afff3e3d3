// SPDX-License-Identifier: Apache-2.0

package packer_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packer"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// progress sums up the numbers that it receives.
type progress struct{ all, done atomic.Int64 }

func (p *progress) Grow(bytes int64) { p.all.Add(bytes) }
func (p *progress) Add(bytes int64)  { p.done.Add(bytes) }

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	core, alpha := filepath.Join(dir, "vmlinux"), filepath.Join(dir, "alpha.ko")
	buildCore(t, core)
	buildModule(t, alpha, "alpha", alphaID)
	broken := filepath.Join(dir, "broken.ko")
	require.NoError(t, os.WriteFile(broken, []byte("\x7fELF"), 0o600))

	var seen progress
	out := filepath.Join(dir, "made", "packs")
	result, err := packer.Run(t.Context(), packer.Files([]string{core, broken, "/nowhere.ko", alpha}),
		packer.Options{Dir: out, Progress: &seen})
	require.ErrorContains(t, err, broken, "what cannot be read is named")
	require.ErrorContains(t, err, "/nowhere.ko")
	assert.Equal(t, 2, result.Packs, "the others are made")
	assert.ElementsMatch(t, []string{coreID + pack.Ext, alphaID + pack.Ext}, files(t, out), "nothing else is left")
	assert.Equal(t, seen.all.Load(), seen.done.Load())
	stat, err := os.Stat(out)
	require.NoError(t, err)
	assert.Equal(t, "drwxr-xr-x", stat.Mode().String())

	p := read(t, out, coreID)
	assert.Equal(t, []string{"inner", "start_kernel"}, chain(t, p, "start_kernel"))
	assert.Equal(t, release, p.Info().Release)
	assert.Equal(t, uint64(0x81000000), p.Info().Text)
	p = read(t, out, alphaID)
	assert.Equal(t, []string{"inner", "outer"}, chain(t, p, "outer"))
	assert.Equal(t, "alpha", p.Info().Name)
}

func TestSymbolsOnly(t *testing.T) {
	dir := t.TempDir()
	alpha := filepath.Join(dir, "alpha.ko")
	buildModule(t, alpha, "alpha", alphaID)
	for name, tt := range map[string]struct {
		strip, only bool
		want        packer.Result
	}{
		"as asked for":         {only: true, want: packer.Result{Packs: 1, WithoutLines: 1}},
		"no debug information": {strip: true, want: packer.Result{Packs: 1, WithoutLines: 1}},
	} {
		if tt.strip {
			command(t, "objcopy", "--strip-debug", alpha)
		}
		out := t.TempDir()
		result, err := packer.Run(t.Context(), packer.Files([]string{alpha}), packer.Options{Dir: out, SymbolsOnly: tt.only})
		require.NoError(t, err, name)
		p := read(t, out, alphaID)
		tt.want.Bytes = p.Bytes()
		assert.Equal(t, tt.want, result, name)
		assert.False(t, p.HasLines(), name)
		assert.Equal(t, 1, p.NumSymbols(), name)
	}
}

// TestSymbolsAloneReplaceNoLines verifies that a pack with lines stays, in whatever way and order
// packs of its build are made, and that any other pack is replaced.
func TestSymbolsAloneReplaceNoLines(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	whole, stripped := filepath.Join(dir, "alpha.ko"), filepath.Join(dir, "stripped", "alpha.ko")
	buildModule(t, whole, "alpha", alphaID)
	buildModule(t, stripped, "alpha", alphaID)
	command(t, "objcopy", "--strip-debug", stripped)
	run := func(o packer.Options, names ...string) packer.Result {
		o.Dir = out
		result, err := packer.Run(t.Context(), packer.Files(names), o)
		require.NoError(t, err)
		assert.Equal(t, []string{alphaID + pack.Ext}, files(t, out), "no draft is left")
		result.Bytes = 0
		return result
	}
	assert.Equal(t, packer.Result{Packs: 1, WithoutLines: 1}, run(packer.Options{}, stripped))
	assert.Equal(t, packer.Result{Packs: 1}, run(packer.Options{}, whole), "lines replace symbols")
	assert.Equal(t, packer.Result{Kept: 1}, run(packer.Options{}, stripped))
	assert.Equal(t, packer.Result{Kept: 1}, run(packer.Options{SymbolsOnly: true}, whole))
	assert.True(t, read(t, out, alphaID).HasLines())
	assert.Equal(t, packer.Result{Packs: 1}, run(packer.Options{}, whole), "a new one with lines counts")

	file := filepath.Join(out, alphaID+pack.Ext)
	require.NoError(t, os.WriteFile(file, []byte("damaged"), 0o600))
	assert.Equal(t, packer.Result{Packs: 1, WithoutLines: 1}, run(packer.Options{}, stripped), "what cannot be read is replaced")
	for range 20 { // several at a time
		require.NoError(t, os.Remove(file))
		run(packer.Options{}, stripped, whole, stripped, stripped)
		require.True(t, read(t, out, alphaID).HasLines())
	}
}

func TestInterrupted(t *testing.T) {
	alpha := filepath.Join(t.TempDir(), "alpha.ko")
	buildModule(t, alpha, "alpha", alphaID)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := t.TempDir()
	_, err := packer.Run(ctx, packer.Files([]string{alpha, alpha}), packer.Options{Dir: out})
	require.EqualError(t, err, context.Canceled.Error(), "once")
	assert.Empty(t, files(t, out))
}

func TestDirectoryThatCannotBeWrittenTo(t *testing.T) {
	alpha := filepath.Join(t.TempDir(), "alpha.ko")
	buildModule(t, alpha, "alpha", alphaID)
	_, err := packer.Run(t.Context(), packer.Files([]string{alpha}), packer.Options{Dir: filepath.Join(alpha, "packs")})
	assert.ErrorContains(t, err, "not a directory")
}
