// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestPackStacks samples the kernel, a busy module and a busy BPF program, with KASLR, and verifies
// that each frame has the lines that its pack has for its address. It hands the messages out, for
// TestGatewayElsewhere, TestChainsElsewhere and the picture in the documentation (`make picture`).
func TestPackStacks(t *testing.T) {
	kerneltest.NeedVM(t)
	packs := kerneltest.Packs(t)
	kerneltest.Busy(t)
	encryptMuch(t)
	keepRunning(t, kerneltest.HotProgram(t))
	dir := t.TempDir()
	with, without := filepath.Join(dir, fileWithPacks), filepath.Join(dir, fileWithoutPacks)
	c := startCollector(t, `
receivers: {kernelstack: {frequency: 199, interval: 1s}}
processors:
  kernelsym/with: {debug_info: {directory: `+os.Getenv(kerneltest.PacksEnv)+`}}
  kernelsym/without:
exporters:
  file/with: {path: `+with+`, flush_interval: 100ms}
  file/without: {path: `+without+`, flush_interval: 100ms}
service:
  pipelines:
    profiles/with: {receivers: [kernelstack], processors: [kernelsym/with], exporters: [file/with]}
    profiles/without: {receivers: [kernelstack], processors: [kernelsym/without], exporters: [file/without]}
`)
	c.waitUntilFollowed()
	// Packs are read when they are first needed.
	last := func(file string) [][]byte {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil
		}
		lines := bytes.SplitAfter(content, []byte("\n"))
		return lines[max(0, len(lines)-6) : len(lines)-1] // complete lines
	}
	c.eventually("messages with lines of the core kernel and of the module", func() error {
		messages := last(with)
		if len(messages) < 5 || len(last(without)) < 5 {
			return fmt.Errorf("%d messages", len(messages))
		}
		for _, m := range messages {
			for _, want := range []string{`"kernel/`, `"crypto/camellia`} {
				if !bytes.Contains(m, []byte(want)) {
					return fmt.Errorf("no file %s", want)
				}
			}
		}
		return nil
	})
	c.stop()
	for _, file := range []string{with, without} {
		tail := bytes.Join(last(file), nil)
		require.NoError(t, os.WriteFile(file, tail, 0o600))
		kerneltest.HandOut(filepath.Base(file), tail)
	}
	lines, inlined, modules := 0, 0, 0
	for _, pd := range exported(t, with) {
		for _, s := range rewritetest.Samples(pd) {
			for _, f := range s.Stack {
				p := packs[f.Mapping.BuildID]
				if p == nil || len(f.Lines) == 0 {
					continue
				}
				chain := p.Find(uint32(f.Address)+p.Info().Base, nil)
				if checkChain(t, p, f, chain); len(chain) > 0 {
					lines++
				}
				if len(chain) > 1 {
					inlined++
				}
				if p.Info().Name != pack.KernelName {
					modules++
				}
			}
		}
	}
	kerneltest.Figure("pack_stack_frames %d frames with lines, %d with inlined functions, %d of modules", lines, inlined, modules)
	assert.Greater(t, inlined, 100)
	assert.Positive(t, modules)
}

// encryptMuch has a cipher module encrypt until the test ends.
func encryptMuch(t *testing.T) {
	t.Helper()
	require.NoError(t, kerneltest.LoadModule("algif_skcipher"))
	_ = kerneltest.LoadModule("ecb") // later kernels have it built in
	require.NoError(t, kerneltest.LoadModule("camellia_generic"))
	keepEncrypting(t, "ecb(camellia-generic)")
}

// keepRunning loads a BPF program, and has the kernel run it until the test ends.
func keepRunning(t *testing.T, spec *ebpf.ProgramSpec) {
	t.Helper()
	program := kerneltest.LoadBPF(t, spec)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			if _, err := program.Run(&ebpf.RunOptions{Data: make([]byte, 64), Repeat: 1}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
}

// checkChain verifies that a frame has what its pack has: the file and line of each function, and
// the names of all except the outermost.
func checkChain(t *testing.T, p *pack.Pack, f frame, chain []pack.Frame) {
	t.Helper()
	outermost := f.Lines[len(f.Lines)-1]
	if len(chain) == 0 || chain[0].Function != "" && !pack.Agree(outermost.System, chain[len(chain)-1].Function) {
		require.Len(t, f.Lines, 1, "%+v has more than the pack of %s", f, p.Info().Name)
		require.Zero(t, f.Lines[0].Line)
		return
	}
	require.Len(t, f.Lines, len(chain), "%+v is not %+v", f, chain)
	for i, l := range f.Lines {
		require.Equal(t, chain[i].File, l.File)
		require.EqualValues(t, chain[i].Line, l.Line)
		if i < len(f.Lines)-1 {
			require.Equal(t, chain[i].Function, l.System)
		}
	}
}
