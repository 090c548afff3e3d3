// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packfiles"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/locate"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// TestContract_10_5_NotLocated verifies that each command that is to locate the kernel fails, with the reason, if it cannot.
func TestContract_10_5_NotLocated(t *testing.T) {
	other, ofAnotherArch := t.TempDir(), t.TempDir()
	writePack(t, other, otherKernelID, kernelPack(otherKernelID))
	writePack(t, ofAnotherArch, kernelID, kernelPackOf(pack.Info{BuildID: kernelID, Arch: "s390x"}))
	tree := taskTree(t)
	hidden := regexp.MustCompile(`(?m)^\w{16}`).ReplaceAllString(symbolList, "0000000000000000")
	require.NoError(t, os.WriteFile(filepath.Join(tree[1], "kallsyms"), []byte(hidden), 0o600))
	for packs, want := range map[string]error{other: packfiles.ErrNotFound, ofAnotherArch: locate.ErrOtherArch} {
		for _, args := range [][]string{
			{"lookup", "ffffffff81000054"},
			{"lookup", "ffffffff81000050+0x10"},
			{"annotate"},
			{"stacks"},
			{"top", "--duration", "1ms"},
		} {
			out, _, err := execute(t, "ffffffff81000054", append(append(args, "--locate", "--pack", packs), tree...)...)
			require.ErrorIs(t, err, kallsyms.ErrRestricted, args)
			require.ErrorIs(t, err, want, args)
			require.NotErrorIs(t, err, errUsage, args)
			assert.NotContains(t, out, "main_loop", args)
		}
	}
}

// TestLocateChangesNothing verifies that a kernel that shows its symbols is not located.
func TestLocateChangesNothing(t *testing.T) {
	dir := t.TempDir()
	writePack(t, dir, kernelID, kernelPack(kernelID))
	for _, args := range [][]string{{"lookup", "ffffffff8100005c", "ffffffff81000050+0x10", "main_loop"}, {"annotate"}, {"stacks"}} {
		args = append(append(args, "--pack", dir), taskTree(t)...)
		want, _, err := execute(t, "at ffffffff8100005c", args...)
		require.NoError(t, err)
		require.Contains(t, want, "main_loop")
		got, _, err := execute(t, "at ffffffff8100005c", append(args, "--locate")...)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

func TestLocateFlags(t *testing.T) {
	dir := t.TempDir()
	writePack(t, dir, kernelID, kernelPack(kernelID))
	for _, command := range []string{"annotate", "lookup", "stacks", "top"} {
		assert.Contains(t, wrong(t, command, "--locate"), "--locate needs --pack")
	}
	for _, command := range []string{"annotate", "lookup"} {
		assert.Contains(t, wrong(t, command, "--locate", "--pack", dir, "--text", "ffffffffa7000000"), "it excludes --text")
	}
	assert.Contains(t, wrong(t, "top", "--pack", dir), "--pack is for --locate")
	assert.Contains(t, wrong(t, "top", "profiles.json", "--locate", "--pack", dir), "is about sampling this machine")
}
