// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// profilesBomb returns a file of some kilobytes, whose message has 16 million empty profiles. They take two gigabytes.
func profilesBomb(t *testing.T, toJSON bool) string {
	t.Helper()
	const n = 16 << 20
	field := func(number byte, content []byte) []byte {
		return append(binary.AppendUvarint([]byte{number<<3 | 2}, uint64(len(content))), content...)
	}
	message := field(1, field(2, bytes.Repeat(field(2, nil), n)))
	file := append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)
	if toJSON {
		file = append([]byte(`{"resourceProfiles":[{"scopeProfiles":[{"profiles":[{}`), bytes.Repeat([]byte(",{}"), n)...)
		file = append(file, "]}]}]}\n"...)
	}
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	_, err := w.Write(file)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.Less(t, compressed.Len(), 100_000)
	name := filepath.Join(t.TempDir(), "profiles.gz")
	require.NoError(t, os.WriteFile(name, compressed.Bytes(), 0o600))
	return name
}

// deepStack returns a file with one sample, whose stack has three million frames at one location. Its graph has as many
// nodes.
func deepStack(t *testing.T) string {
	t.Helper()
	pd := message()
	d := pd.Dictionary()
	stack := d.StackTable().AppendEmpty()
	stack.LocationIndices().FromRaw(slices.Repeat([]int32{1}, 3<<20))
	sample := pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).Samples().AppendEmpty()
	sample.SetStackIndex(int32(d.StackTable().Len() - 1))
	sample.Values().Append(1)
	return profileFile(t, pd)
}

// TestInterruptWhileReading verifies that an interrupt ends a command at once, whatever it is working on.
func TestInterruptWhileReading(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupt := errors.New("interrupt")
	stuck, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	go func() {
		<-stuck
		cancel(interrupt)
	}()
	err := withinMemory(ctx, func() error {
		close(stuck)
		<-release
		return nil
	})
	require.ErrorIs(t, err, interrupt)
}

// TestProfilesThatTakeTooMuchMemory reads files in a process with a limit.
func TestProfilesThatTakeTooMuchMemory(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	for _, tt := range []struct {
		name, file string
		says       string // empty: the file can be read
	}{
		{"protobuf", profilesBomb(t, false), "the profiles take more than 128 MiB of memory: read fewer files at a time, or set GOMEMLIMIT"},
		{"JSON", profilesBomb(t, true), "the profiles take more than 128 MiB of memory: read fewer files at a time, or set GOMEMLIMIT"},
		{"a deep graph", deepStack(t), "the profiles take more than 128 MiB of memory: read fewer files at a time, or set GOMEMLIMIT"},
		{"ordinary", profileFile(t, message()), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, command := range []string{"top", "view --folded -"} {
				if tt.name == "a deep graph" && command == "top" {
					continue // it makes no graph
				}
				self, err := os.Executable()
				require.NoError(t, err)
				cmd := exec.CommandContext(t.Context(), self)
				cmd.Env = append(os.Environ(), toolEnv+"="+command+" "+tt.file, "GOMEMLIMIT=128MiB")
				output, err := cmd.CombinedOutput()
				assert.Equal(t, tt.says != "", err != nil, string(output))
				assert.Contains(t, string(output), tt.says)
			}
		})
	}
}
