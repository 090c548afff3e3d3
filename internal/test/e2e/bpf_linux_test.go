// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestSampledBPFCode verifies that the functions of a BPF program are in the collector's output
// with file and line. The program is loaded while the collector follows, and runs in a loop.
func TestSampledBPFCode(t *testing.T) {
	kerneltest.Built(t, kerneltest.Collector)
	kerneltest.NeedBPF(t)
	file := filepath.Join(t.TempDir(), "profiles.json")
	c := startCollector(t, `
receivers: {kernelstack: {frequency: `+hertz()+`, interval: 500ms}}
processors: {kernelsym: }
exporters: {file: {path: `+file+`, flush_interval: 100ms}}
service: {pipelines: {profiles: {receivers: [kernelstack], processors: [kernelsym], exporters: [file]}}}
`)
	prog := kerneltest.LoadBPF(t, kerneltest.HotProgram(t))
	info, err := prog.Info()
	require.NoError(t, err)
	id, _ := info.ID()
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				kerneltest.RunBPF(t, prog, 2000)
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-ended
	})

	wanted := map[string]bool{"kernelsym_test_hot_program": true, "stir": true, "shake": true}
	frames, seen := make(map[string]frame), 0 // by function
	c.eventually("functions of the program", func() error {
		all := c.exported(file)
		for _, pd := range all[seen:] {
			for _, s := range rewritetest.Samples(pd) {
				for _, f := range s.Stack {
					if len(f.Lines) == 0 || f.Mapping == nil || f.Mapping.File != "[bpf]" || f.Attributes["bpf.program.id"] != int64(id) {
						continue
					}
					if name := functionOf(f.Lines[0].System); f.Lines[0].Line > 0 {
						frames[name] = f
					}
				}
			}
		}
		if seen = len(all); len(frames) < len(wanted) {
			return errors.New("not all yet")
		}
		return nil
	})
	for name, f := range frames {
		assert.True(t, wanted[name], name)
		file := f.Lines[0].File
		assert.Contains(t, []string{"hot.c", "hot.h"}, file[strings.LastIndexByte(file, '/')+1:])
		assert.NotEmpty(t, f.Mapping.FileID)
		assert.Equal(t, info.Tag, f.Attributes["bpf.program.tag"])
		assert.Equal(t, "socket_filter", f.Attributes["bpf.program.type"])
	}
}

// functionOf returns the name of a function from the kernel's symbol for it.
func functionOf(symbol string) string {
	return symbol[min(len(symbol), len("bpf_prog_0123456789abcdef_")):]
}
