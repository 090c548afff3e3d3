// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// ksm is the directory that controls a kernel thread, ksmd, which merges equal pages of memory.
const ksm = "/sys/kernel/mm/ksm"

// keepKSMBusy keeps ksmd working until the test ends.
func keepKSMBusy(t *testing.T) {
	t.Helper()
	for _, setting := range [][2]string{
		{"smart_scan", "0"}, // or it leaves out pages that did not change
		{"sleep_millisecs", "0"}, {"pages_to_scan", "100000"}, {"run", "1"},
	} {
		file := filepath.Join(ksm, setting[0])
		before, err := os.ReadFile(file)
		if setting[0] == "smart_scan" && errors.Is(err, os.ErrNotExist) { // before Linux 6.7
			continue
		}
		if err != nil {
			t.Skipf("this kernel has no KSM (%v): threads of the kernel are not tested in a PID namespace", err)
		}
		require.NoError(t, os.WriteFile(file, []byte(setting[1]), 0o600))
		t.Cleanup(func() { require.NoError(t, os.WriteFile(file, []byte(strings.TrimSpace(string(before))), 0o600)) })
	}
	memory, err := unix.Mmap(-1, 0, 64<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(memory)) })
	require.NoError(t, unix.Madvise(memory, unix.MADV_MERGEABLE))
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i] = byte(i >> 12)
	}
}

// samplesOfKSM samples until rings, which leave nothing out, have enough samples of ksmd. It returns how many samples of
// ksmd a sampler beside them has, and how many they have.
func samplesOfKSM(t *testing.T) (sampled, judged int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	frequency := kerneltest.Hertz(997)
	symbols := kerneltest.ReadSymbols(t)
	ofKSM := func(stack []uint64) int {
		if slices.Contains(namesOn(symbols, stack), "ksm_scan_thread") {
			return 1
		}
		return 0
	}
	rings, err := perfring.Open(perfring.Options{
		Event: perfring.Sampling{Frequency: uint64(frequency), Idle: true}, BytesPerCPU: 1 << 20, SysFS: "/sys",
	})
	require.NoError(t, err)
	judge := func() {
		for _, rec := range rings.Flush().Records {
			if rec.Type == perfring.TypeSample {
				judged += ofKSM(rec.Stack)
			}
		}
	}
	var judging sync.WaitGroup
	sampler := &Sampler{
		Options: Options{
			Threads: Running{Event: EventClock, Frequency: frequency}, Buffer: 1 << 20, Interval: time.Hour, MaxSamples: 1 << 20,
			Procfs: "/proc", Sysfs: "/sys",
		},
		Started: func(_ string, missing Missing) {
			require.NoError(t, missing.Err())
			rings.Flush() // without what came before
			judging.Go(func() {
				defer cancel()
				const enough = 300
				for began := time.Now(); judged < enough && time.Since(began) < 5*time.Minute; time.Sleep(50 * time.Millisecond) {
					judge()
				}
			})
		},
		Send: func(_ context.Context, m *Message) {
			for _, pd := range m.Profiles {
				for _, stack := range stacksOf(pd) {
					sampled += ofKSM(stack)
				}
			}
		},
	}
	require.ErrorIs(t, sampler.Run(ctx), context.Canceled)
	judging.Wait()
	judge() // what came until the sampler ended
	require.NoError(t, rings.Close())
	return sampled, judged
}

const inPIDNamespace = "KERNELSYM_TEST_IN_PID_NAMESPACE"

// TestKernelThreadsInAPIDNamespace samples in a PID namespace of its own, as pods have it. There, all threads of the kernel
// have the number 0, as the idle tasks have. None of their samples is taken for one of an idle CPU.
func TestKernelThreadsInAPIDNamespace(t *testing.T) {
	if os.Getenv(inPIDNamespace) != "" {
		sampled, judged := samplesOfKSM(t)
		t.Logf("samples of ksmd in a PID namespace: %d, %d by rings beside", sampled, judged)
		require.Positive(t, judged)
		assert.InEpsilon(t, judged, sampled, 0.3, "the timers do not fire at the same instants")
		return
	}
	kerneltest.NeedPerf(t)
	kerneltest.NeedAddresses(t)
	keepKSMBusy(t)
	child := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestKernelThreadsInAPIDNamespace$", "-test.v")
	child.Env = append(os.Environ(), inPIDNamespace+"=1")
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	out, err := child.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
}
