// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
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
	kerneltest.NeedAddresses(t)
	kerneltest.Busy(t)
	file := filepath.Join(t.TempDir(), "profiles.json")
	c := startCollector(t, `
receivers: {kernelstack: {frequency: `+hertz()+`, interval: 500ms}}
processors: {kernelsym: {addresses: keep}}
exporters: {file: {path: `+file+`, flush_interval: 100ms}}
service: {pipelines: {profiles: {receivers: [kernelstack], processors: [kernelsym], exporters: [file]}}}
`)
	c.waitForSource("kallsyms")
	messages := func() int {
		content, err := os.ReadFile(file)
		if !errors.Is(err, os.ErrNotExist) {
			require.NoError(t, err)
		}
		return bytes.Count(content, []byte("\n"))
	}
	before := messages()
	c.eventually("messages", func() error {
		const enough = 8
		if n := messages() - before; n < enough {
			return fmt.Errorf("%d messages are not %d", n, enough)
		}
		return nil
	})
	c.stop()

	list := kerneltest.ReadSymbols(t)
	inText, named := 0, 0
	for _, pd := range exported(t, file) {
		if named == 0 && !hasNames(pd) {
			continue // it came before the symbols were read
		}
		for _, s := range rewritetest.Samples(pd) {
			for position, f := range s.Stack {
				require.Equal(t, "kernel", f.Type)
				if !list.InText(f.Address) {
					continue
				}
				inText++
				if len(f.Lines) == 0 {
					continue
				}
				named++
				require.Contains(t, possible(list, f.Address, position > 0), f.Lines[0].System, "%x", f.Address)
				require.Equal(t, "vmlinux", f.Mapping.File)
			}
		}
	}
	t.Logf("%d of %d frames in core text have names", named, inText)
	assert.Greater(t, inText, 1000)
	assert.GreaterOrEqual(t, named*100, inText*99)
}

func hasNames(pd pprofile.Profiles) bool { return pd.Dictionary().FunctionTable().Len() > 1 }

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
