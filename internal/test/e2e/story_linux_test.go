// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// chapter is a program that ran for a while.
type chapter struct {
	name     string
	code     []kerneltest.Code
	from, to time.Time // when it ran
}

// tell runs a program for a while.
func tell(t *testing.T, prog *ebpf.Program, name string) chapter {
	t.Helper()
	c := chapter{name: name, code: kerneltest.CodeOf(t, prog), from: time.Now()}
	for goOn := whileRunning(chapterTime()); goOn(); {
		kerneltest.RunBPF(t, prog, uint32(kerneltest.Sized(1000, 100)))
	}
	c.to = time.Now()
	return c
}

// chapterTime is long enough for samples, even in a virtual machine, which gets fewer while its
// host is busy.
func chapterTime() time.Duration {
	return time.Duration(kerneltest.Sized(700, 2000)) * time.Millisecond
}

// whileRunning returns a function that returns true until this goroutine has had a CPU for d,
// because it is only sampled then. After that, other goroutines can use its thread again.
func whileRunning(d time.Duration) func() bool {
	runtime.LockOSThread()
	cpuTime := func() time.Duration {
		var ts unix.Timespec
		if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
			return 0
		}
		return time.Duration(ts.Nano())
	}
	start := cpuTime()
	return func() bool {
		if cpuTime()-start < d {
			return true
		}
		runtime.UnlockOSThread()
		return false
	}
}

// loadOver loads programs until most of one lies where another one was. It returns nil if others
// have taken the address.
func loadOver(t *testing.T, spec *ebpf.ProgramSpec, was []kerneltest.Code) *ebpf.Program {
	t.Helper()
	var others []*ebpf.Program // they stay, so that the next one gets another address
	for range 2000 {
		prog := kerneltest.LoadBPF(t, spec)
		is := kerneltest.CodeOf(t, prog)[0]
		for _, code := range was {
			if from, to := max(is.Start, code.Start), min(is.End, code.End); from < to && to-from > (is.End-is.Start)/2 {
				return prog
			}
		}
		others = append(others, prog)
		time.Sleep(time.Millisecond) // the kernel frees memory late
	}
	for _, prog := range others {
		require.NoError(t, prog.Close())
	}
	return nil
}

// In a story, the receiver keeps its samples until the end. Messages over OTLP show how much the processor
// has learned so far.
const storyConfig = `
receivers: {kernelstack: {frequency: %d, interval: 1h}, otlp: {protocols: {grpc: {endpoint: "%s"}}}}
processors: {kernelsym: {addresses: %s}}
exporters: {file: {path: %s, flush_interval: 50ms}}
service:
  telemetry: {metrics: {readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: %s}}}}]}}
  pipelines: {profiles: {receivers: [kernelstack, otlp], processors: [kernelsym], exporters: [file]}}
`

// A story is a collector that samples.
type story struct {
	*collector
	file, endpoint, metrics string
	sent                    int // messages
}

func startStory(t *testing.T, addresses string) *story {
	t.Helper()
	s := &story{file: filepath.Join(t.TempDir(), "profiles.json"), endpoint: freeAddress(t), metrics: freeAddress(t)}
	_, port, err := net.SplitHostPort(s.metrics)
	require.NoError(t, err)
	s.collector = startCollectorBy(t, (*exec.Cmd).Start,
		fmt.Sprintf(storyConfig, kerneltest.Hertz(997), s.endpoint, addresses, s.file, port))
	s.waitUntilFollowed()
	return s
}

// waitUntil waits until an address comes out as wanted.
func (s *story) waitUntil(what string, addr uint64, wanted func(frame) bool) {
	s.t.Helper()
	s.sent = waitForFrame(s.collector, what, overGRPC(s.endpoint), s.file, s.sent, addr, wanted)
}

// TestStory verifies what this project is for. Two programs have the same address, one after the
// other, and are gone before the profile leaves the receiver. Each sample must have the name of the
// right one.
func TestStory(t *testing.T) {
	kerneltest.Built(t, kerneltest.Collector)
	kerneltest.NeedPerf(t)
	kerneltest.NeedAddresses(t)
	kerneltest.NeedBPF(t)
	if kerneltest.OlderThan(t, 5, 18) {
		t.Skip("before Linux 5.18, programs have pages of their own, and none takes the place of another: " +
			"the story of two programs is not tested")
	}
	for range 10 {
		if t.Failed() || tellStory(t) {
			return
		}
	}
	t.Fatal("each time, other programs were in the way")
}

// tellStory reports whether the story came to its end. Programs of other tests can take the
// address, or be so many that records are lost.
func tellStory(t *testing.T) (told bool) {
	t.Helper()
	s := startStory(t, "keep")
	progA := kerneltest.LoadBPF(t, kerneltest.HotProgram(t))
	s.waitUntil("the first program has lines", kerneltest.CodeOf(t, progA)[0].Start, func(f frame) bool { return hasName(f) && f.Lines[0].Line > 0 })
	a := tell(t, progA, "kernelsym_test_hot_program")
	require.NoError(t, progA.Close())
	progB := loadOver(t, kerneltest.LoopProgram("kernelsym_b", 1, 0), a.code)
	if progB == nil {
		t.Log("no program took the address of the other")
		s.stop()
		return false
	}
	s.waitUntil("the second program has a name", kerneltest.CodeOf(t, progB)[0].Start, hasName)
	b := tell(t, progB, "kernelsym_b")
	require.NoError(t, progB.Close())
	metrics := scrape(t, s.metrics)
	lost, blind := valueOf(metrics, "lost_records", `source="bpf"`), valueOf(metrics, "blind_time", `source="bpf"`)
	s.stop() // the receiver sends its samples

	inA, inB := a.check(t, s.file), b.check(t, s.file)
	t.Logf("%d samples of A at %x, %d of B at %x; records lost: %s, blind for %s s", inA, a.code, inB, b.code, lost, blind)
	enough := kerneltest.Sized(20, 5)
	if min(inA, inB) <= enough && (lost != "0" || blind != "0") {
		return false
	}
	assert.Greater(t, inA, enough)
	assert.Greater(t, inB, enough)
	return true
}

// check checks all samples that were taken in a program while it ran, and returns how many of them
// have its name. None may have another name.
func (c chapter) check(t *testing.T, file string) (n int) {
	t.Helper()
	for _, pd := range exported(t, file) {
		for _, s := range rewritetest.Samples(pd) {
			for _, stamp := range s.Timestamps {
				if at := time.Unix(0, int64(stamp)); at.Before(c.from) || at.After(c.to) {
					continue
				}
				if i := slices.IndexFunc(s.Stack, c.has); i >= 0 && len(s.Stack[i].Lines) > 0 {
					require.NoError(t, checkBPFFrame(s.Stack[i], c.name), "%+v", s.Stack[i])
					n++
				}
			}
		}
	}
	return n
}

// has reports whether a frame lies in the program.
func (c chapter) has(f rewritetest.Frame) bool {
	return slices.ContainsFunc(c.code, func(code kerneltest.Code) bool { return code.Start <= f.Address && f.Address < code.End })
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
