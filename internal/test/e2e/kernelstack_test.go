// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestKernelStacksAreNamed samples this machine's kernel with the built collector. It verifies that
// at least 99 % of the frames inside core text get a name (the rest may have been interrupted in
// padding), and that each name is one that the kernel lists for the function. The list is read with
// the test's own parser.
func TestKernelStacksAreNamed(t *testing.T) {
	kerneltest.Built(t, kerneltest.Collector)
	kerneltest.NeedPerf(t)
	k := readKernel(t)
	file := filepath.Join(t.TempDir(), "profiles.json")
	t.Run("sample", func(t *testing.T) { sampleKernel(t, file) }) // the rest needs the CPUs for itself
	inText, named := 0, 0
	for _, pd := range exported(t, file) {
		if knowsCore(pd) {
			in, with := checkStacks(t, k, pd)
			inText, named = inText+in, named+with
		}
	}
	t.Logf("%d of %d frames in core text have names", named, inText)
	assert.Greater(t, inText, kerneltest.Sized(1000, 100))
	assert.GreaterOrEqual(t, named*100, inText*99)
}

// sampleKernel has a collector sample the busy kernel until a file has enough named messages.
func sampleKernel(t *testing.T, file string) {
	t.Helper()
	kerneltest.Busy(t)
	c := startCollector(t, `
receivers: {kernelstack: {frequency: `+hertz()+`, interval: 500ms}}
processors: {kernelsym: {addresses: keep}}
exporters: {file: {path: `+file+`, flush_interval: 100ms}}
service: {pipelines: {profiles: {receivers: [kernelstack], processors: [kernelsym], exporters: [file]}}}
`)
	c.eventually("named messages", func() error {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		messages, size := 0, 0
		for line := range bytes.Lines(content) {
			if bytes.Contains(line, []byte(`"vmlinux"`)) {
				messages, size = messages+1, size+len(line)
			}
		}
		if messages < kerneltest.Sized(8, 3) || size < kerneltest.Sized(400_000, 50_000) {
			return fmt.Errorf("%d messages of %d bytes are not enough", messages, size)
		}
		return nil
	})
	c.stop()
}

// checkStacks verifies the frames of a message, and returns how many are in core text, and how many
// of these have names.
func checkStacks(t *testing.T, k *kernel, pd pprofile.Profiles) (inText, named int) {
	t.Helper()
	for _, s := range rewritetest.Samples(pd) {
		for position, f := range s.Stack {
			require.Equal(t, "kernel", f.Type)
			if !k.InText(f.Address) {
				continue
			}
			inText++
			require.Equal(t, k.absolute(), f.Mapping)
			if len(f.Lines) > 0 {
				named++
				require.Contains(t, possible(k.Symbols, f.Address, position > 0), f.Lines[0].System, "%x", f.Address)
			}
		}
	}
	return inText, named
}

// knowsCore reports whether the symbols of the core kernel had been read when a message was named.
func knowsCore(pd pprofile.Profiles) bool {
	for _, m := range pd.Dictionary().MappingTable().All() {
		if pd.Dictionary().StringTable().At(int(m.FilenameStrindex())) == "vmlinux" {
			return true
		}
	}
	return false
}

// possible returns the names that the kernel lists for an address: the names of the function it
// lies in. The address of a caller is a return address, which can be the first byte after the
// function (contract 2.3).
func possible(list *kerneltest.Symbols, addr uint64, caller bool) []string {
	names, start := list.Below(addr)
	if caller && start == addr {
		before, _ := list.Below(addr - 1)
		return append(before[:len(before):len(before)], names...)
	}
	return names
}
