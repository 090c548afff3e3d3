// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// TestKernelStacksAreNamed samples this machine's kernel with the built
// collector. Of the frames inside core text at least 99 % get a name (the rest may
// have been interrupted in padding), and each name is one that the kernel lists
// for the function: the list is read with a parser of the test's own.
func TestKernelStacksAreNamed(t *testing.T) {
	kerneltest.Built(t, kerneltest.Collector)
	kerneltest.NeedPerf(t)
	k := readKernel(t)
	kerneltest.Busy(t)
	file := filepath.Join(t.TempDir(), "profiles.json")
	c := startCollector(t, `
receivers: {kernelstack: {frequency: `+hertz()+`, interval: 500ms}}
processors: {kernelsym: {addresses: keep}}
exporters: {file: {path: `+file+`, flush_interval: 100ms}}
service: {pipelines: {profiles: {receivers: [kernelstack], processors: [kernelsym], exporters: [file]}}}
`)
	inText, named, seen := 0, 0, 0
	c.eventually("frames in core text", func() error {
		all := c.exported(file)
		for _, pd := range all[seen:] {
			if named > 0 || knowsCore(pd) {
				in, with := checkStacks(t, k, pd)
				inText, named = inText+in, named+with
			}
		}
		seen = len(all)
		if enough := kerneltest.Sized(10_000, 2000); inText < enough {
			return fmt.Errorf("%d are not %d", inText, enough)
		}
		return nil
	})
	c.stop()
	t.Logf("%d of %d frames in core text have names", named, inText)
	assert.GreaterOrEqual(t, named*100, inText*99)
}

// checkStacks verifies the frames of a message, and returns how many are in core text, and how
// many of those have names.
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

// possible returns the names that the kernel lists for an address: those of the
// function it lies in. That of a caller is a return address, which can be the
// first byte of what comes after the function (contract 2.3).
func possible(list *kerneltest.Symbols, addr uint64, caller bool) []string {
	names, start := list.Below(addr)
	if caller && start == addr {
		before, _ := list.Below(addr - 1)
		return append(before[:len(before):len(before)], names...)
	}
	return names
}
