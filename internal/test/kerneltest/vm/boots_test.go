// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// boots returns the records of boots in which tests printed the given values.
func boots(t *testing.T, same, other []string) (all []*record) {
	t.Helper()
	for i := range same {
		r := &record{Writer: io.Discard}
		for _, line := range []string{"ok", kerneltest.SameInEachBoot + same[i], kerneltest.OtherInEachBoot + other[i]} {
			_, err := io.WriteString(r, line+"\n")
			require.NoError(t, err)
		}
		all = append(all, r)
	}
	return all
}

func TestBootsAreCompared(t *testing.T) {
	require.NoError(t, compare(boots(t, []string{"a", "a"}, []string{"b", "c"})))
	require.ErrorContains(t, compare(boots(t, []string{"a", "x"}, []string{"b", "c"})), "two boots differ")
	require.ErrorContains(t, compare(boots(t, []string{"a", "a"}, []string{"b", "b"})), "two boots have the same: b")
	require.ErrorContains(t, compare([]*record{{}, {}}), "nothing was printed")
	require.NoError(t, compare([]*record{{}}), "one boot is not compared")
}

// TestFilesAreHandedOut verifies that the parts of a file are put together.
func TestFilesAreHandedOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	r := &record{Writer: io.Discard, dir: dir}
	for _, part := range []string{"hello, ", "world"} {
		_, err := io.WriteString(r, kerneltest.FileOut+"a.txt "+base64.StdEncoding.EncodeToString([]byte(part))+"\n")
		require.NoError(t, err)
	}
	require.NoError(t, r.err)
	got, err := os.ReadFile(filepath.Join(dir, "a.txt"))
	require.NoError(t, err)
	require.Equal(t, "hello, world", string(got))
	_, err = io.WriteString(r, kerneltest.FileOut+"a.txt ?\n")
	require.NoError(t, err)
	require.Error(t, r.err)
}
