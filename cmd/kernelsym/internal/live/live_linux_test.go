// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

func TestMain(m *testing.M) {
	if os.Getenv(parentEnv) != "" {
		vfork()
		return
	}
	goleak.VerifyTestMain(m)
}

func options() Options {
	return Options{
		Procfs: "/proc", Sysfs: "/sys", Event: "cpu-clock", Frequency: kerneltest.Hertz(997),
		Interval: 500 * time.Millisecond, First: 100 * time.Millisecond,
	}
}

// run samples until more returns false.
func run(t *testing.T, o Options, more func(*Batch) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	done := false
	require.NoError(t, Run(ctx, o, func(b *Batch) {
		if !done && !more(b) {
			done = true
			cancel()
		}
	}))
	require.True(t, done, "what was waited for never came")
}

// eachSample calls visit for each sample of a batch.
func eachSample(b *Batch, visit func(*rewrite.Named, *rewrite.NamedSample)) {
	for _, n := range b.Messages {
		for p := range n.Profiles() {
			for s := range p.Samples() {
				visit(n, s)
			}
		}
	}
}

// names returns the number of stacks that each function was on.
func names(b *Batch) map[string]int {
	all := make(map[string]int)
	eachSample(b, func(n *rewrite.Named, s *rewrite.NamedSample) {
		for _, f := range s.Frames {
			for _, line := range n.Code(f.Code).Lines {
				all[line.Function] += int(s.Weight)
			}
		}
	})
	return all
}

// TestProgramThatIsGone verifies that a BPF program still has its name if it was unloaded before
// its samples were named.
func TestProgramThatIsGone(t *testing.T) {
	kerneltest.NeedBPF(t)
	loop := func(n int32) string {
		prog, err := kerneltest.NewBPF(kerneltest.LoopProgram("kernelsym_gone", n, 7))
		require.NoError(t, err)
		kerneltest.RunBPF(t, prog, uint32(kerneltest.Sized(10000, 2000)))
		info, err := prog.Info()
		require.NoError(t, err)
		require.NoError(t, prog.Close())
		return "bpf_prog_" + info.Tag + "_kernelsym_gone"
	}
	o := options()
	o.Tasks.PIDs = []uint32{uint32(os.Getpid())}
	loaded := make(chan string, 1)
	n := int32(1000)
	run(t, o, func(b *Batch) bool {
		if len(loaded) == 0 {
			n++
			loaded <- loop(n)
			return true
		}
		all := names(b)
		name := <-loaded
		return all[name] == 0
	})
}

// TestBatch verifies that a batch covers the interval that it claims.
func TestBatch(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.NeedPerf(t)
	kerneltest.NeedAddresses(t)
	kerneltest.Busy(t)
	end := time.Time{}
	batches := 0
	run(t, options(), func(b *Batch) bool {
		if batches > 0 {
			assert.Equal(t, end, b.Start, "no time is left out")
		}
		end = b.End
		assert.True(t, b.End.After(b.Start))
		assert.Equal(t, "cpu-clock", b.Event)
		assert.Positive(t, b.CPUs)
		assert.Positive(t, b.Possible())
		events := 0
		eachSample(b, func(_ *rewrite.Named, s *rewrite.NamedSample) { events += int(s.Weight) })
		assert.Equal(t, events, b.Kernel+b.User)
		batches++
		return batches < 3 || b.User == 0 || len(names(b)) == 0
	})
}

// TestInterruptedBeforeSampling verifies that Run does not wait for names after an interrupt.
func TestInterruptedBeforeSampling(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, Run(ctx, options(), func(*Batch) { t.Error("a batch") }))
}

// TestDuration verifies that the duration is the time of the samples.
func TestDuration(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.NeedPerf(t)
	o := options()
	o.Duration = 700 * time.Millisecond
	sampled := time.Duration(0)
	require.NoError(t, Run(t.Context(), o, func(b *Batch) { sampled += b.End.Sub(b.Start) }))
	assert.GreaterOrEqual(t, sampled, o.Duration-100*time.Millisecond)
}

// TestCPUsWithoutSysfs verifies that the number of sampled CPUs is known without sysfs, too.
func TestCPUsWithoutSysfs(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.NeedPerf(t)
	online, err := perfring.OnlineCPUs("/sys")
	require.NoError(t, err)
	o := options()
	o.Sysfs = t.TempDir()
	run(t, o, func(b *Batch) bool {
		assert.Equal(t, len(online), b.CPUs)
		return false
	})
	o.CPUs = online[:1]
	run(t, o, func(b *Batch) bool {
		assert.Equal(t, 1, b.CPUs)
		return false
	})
}

// TestWithoutPrivilege verifies that the error names the capability to grant.
func TestWithoutPrivilege(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.NeedRestrictedPerf(t)
	kerneltest.Unprivileged(t, func(t *testing.T) {
		err := Run(t.Context(), options(), func(*Batch) { t.Error("a batch") })
		assert.ErrorContains(t, err, "CAP_PERFMON")
	})
}
