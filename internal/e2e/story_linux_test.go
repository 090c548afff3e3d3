// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// chapter is a program that ran for a while.
type chapter struct {
	code     []kerneltest.Code
	from, to time.Time // when it ran
}

// tell runs a program for a while.
func tell(t *testing.T, prog *ebpf.Program) chapter {
	t.Helper()
	c := chapter{code: kerneltest.CodeOf(t, prog), from: time.Now()}
	for time.Since(c.from) < 700*time.Millisecond {
		kerneltest.RunBPF(t, prog, 1000)
	}
	c.to = time.Now()
	return c
}

// loadOver loads programs until one lies where another one was, for the most part.
func loadOver(t *testing.T, spec *ebpf.ProgramSpec, was []kerneltest.Code) *ebpf.Program {
	t.Helper()
	for range 2000 {
		prog := kerneltest.LoadBPF(t, spec) // and leave it there: the next takes another place
		is := kerneltest.CodeOf(t, prog)[0]
		for _, code := range was {
			if from, to := max(is.Start, code.Start), min(is.End, code.End); from < to && to-from > (is.End-is.Start)/2 {
				return prog
			}
		}
		time.Sleep(time.Millisecond) // the kernel frees late
	}
	if kerneltest.OlderThan(t, 5, 18) {
		t.Skip("before Linux 5.18, programs have pages of their own, and no program took the place of the other: " +
			"the story of two programs is not tested")
	}
	t.Fatal("no program took the place of the other")
	return nil
}

// TestStory is what this project is for: two programs have the same address, one
// after the other, and are gone before the profile leaves the receiver. Each sample
// says which it was.
func TestStory(t *testing.T) {
	kerneltest.Built(t, kerneltest.Collector)
	kerneltest.NeedPerf(t)
	kerneltest.NeedAddresses(t)
	kerneltest.NeedBPF(t)
	file := filepath.Join(t.TempDir(), "profiles.json")
	c := startCollector(t, `
receivers: {kernelstack: {frequency: 997, interval: 1h}}
processors: {kernelsym: }
exporters: {file: {path: `+file+`, flush_interval: 100ms}}
service: {pipelines: {profiles: {receivers: [kernelstack], processors: [kernelsym], exporters: [file]}}}
`)
	c.waitUntilFollowed()
	progA := kerneltest.LoadBPF(t, kerneltest.HotProgram(t))
	a := tell(t, progA)
	require.NoError(t, progA.Close())
	progB := loadOver(t, kerneltest.LoopProgram("kernelsym_b", 1, 0), a.code)
	b := tell(t, progB)
	require.NoError(t, progB.Close())
	time.Sleep(50 * time.Millisecond) // so that the processor knows that B is gone, too
	c.stop()                          // the receiver sends what it has

	inA, inB := checkChapter(t, file, a, "kernelsym_test_hot_program"), checkChapter(t, file, b, "kernelsym_b")
	t.Logf("%d samples of A at %x, %d of B at %x", inA, a.code, inB, b.code)
	assert.Greater(t, inA, 20)
	assert.Greater(t, inB, 20)
}

// checkChapter checks all samples that were taken while a program ran, and returns
// how many were taken in it.
func checkChapter(t *testing.T, file string, c chapter, name string) (n int) {
	t.Helper()
	for _, pd := range exported(t, file) {
		for _, s := range rewritetest.Samples(pd) {
			for _, stamp := range s.Timestamps {
				if at := time.Unix(0, int64(stamp)); at.Before(c.from) || at.After(c.to) {
					continue
				}
				for _, f := range s.Stack {
					if f.Attributes["bpf.program.id"] == nil {
						continue
					}
					n++
					require.NoError(t, checkBPFFrame(f, name), "%+v", f)
					break
				}
			}
		}
	}
	return n
}

func checkBPFFrame(f rewritetest.Frame, name string) error {
	if len(f.Lines) != 1 {
		return fmt.Errorf("%d lines", len(f.Lines))
	}
	l := f.Lines[0]
	isA := strings.HasSuffix(l.System, "_stir") || strings.HasSuffix(l.System, "_shake") || strings.HasSuffix(l.System, "_kernelsym_test_hot_program")
	switch {
	case name == "kernelsym_b" && !strings.HasSuffix(l.System, "_kernelsym_b"), name != "kernelsym_b" && !isA:
		return fmt.Errorf("%s in the time of %s", l.System, name)
	case isA && (l.Line == 0 || !strings.Contains(l.File, "hot.")):
		return errors.New("no source line")
	}
	return nil
}
