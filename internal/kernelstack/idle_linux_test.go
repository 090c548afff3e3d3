// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// TestWorkOnIdleCPUs has CPU 1 send packets whose softirqs run on CPU 0, which is idle. It compares the
// samples of this work with a ring that also samples the idle task, and tells work from idling by the names
// on the stacks. A ring that excludes the idle task, as perf's exclude_idle does, sees none of the work.
func TestWorkOnIdleCPUs(t *testing.T) {
	kerneltest.NeedPerf(t)
	kerneltest.NeedAddresses(t)
	if runtime.NumCPU() < 2 {
		t.Skip("one CPU cannot be idle while another sends: work on idle CPUs is not tested")
	}
	const sender, worker = 1, 0
	frequency := kerneltest.Sized(997, 97)
	duration := kerneltest.Sized(int(5*time.Second), int(20*time.Second))
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(duration))
	defer cancel()

	var sent []*Message
	sampler := &Sampler{
		Options: Options{
			Threads: Running{Event: EventClock, Frequency: frequency, CPUs: []int{worker}}, Buffer: 1 << 20, Interval: time.Hour, MaxSamples: 1 << 20,
			Procfs: "/proc", Sysfs: "/sys",
		},
		Started: func(_ string, missing Missing) { assert.NoError(t, missing.Err()) },
		Send:    func(_ context.Context, m *Message) { sent = append(sent, m) },
	}
	sampling := func(idle bool) (stacks *[][]uint64, run func()) {
		r, err := perfring.Open(perfring.Options{
			Event: perfring.Sampling{Frequency: uint64(frequency), Idle: idle}, BytesPerCPU: 1 << 20, CPUs: []int{worker}, SysFS: "/sys",
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, r.Close()) })
		stacks = new([][]uint64)
		return stacks, func() {
			for ctx.Err() == nil {
				_ = r.Wait(ctx, time.Now().Add(100*time.Millisecond))
				for _, rec := range r.Poll().Records {
					if rec.Type == perfring.TypeSample {
						*stacks = append(*stacks, slices.Clone(rec.Stack))
					}
				}
			}
		}
	}
	withIdle, readWithIdle := sampling(true)
	withoutIdle, readWithoutIdle := sampling(false)
	var wait sync.WaitGroup
	wait.Go(readWithIdle)
	wait.Go(readWithoutIdle)
	wait.Go(func() { assert.ErrorIs(t, sampler.Run(ctx), context.DeadlineExceeded) })
	wait.Go(func() { sendPackets(ctx, t, sender, worker) })
	wait.Wait()

	symbols := kerneltest.ReadSymbols(t)
	count := func(stacks [][]uint64) (work, loop int) {
		for _, stack := range stacks {
			switch kindOf(symbols, stack) {
			case idleSoftirq:
				work++
			case idleWaiting:
				loop++
			}
		}
		return work, loop
	}
	var own [][]uint64
	for _, m := range sent {
		for _, pd := range m.Profiles {
			own = append(own, stacksOf(pd)...)
		}
	}
	work, loop := count(own)
	judged, halted := count(*withIdle)
	before, _ := count(*withoutIdle)
	t.Logf("softirqs on the idle CPU: %d samples, %d by the other ring, %d without idle; the idle loop: %d and %d", work, judged, before, loop, halted)
	if judged < 50 && !kerneltest.InVM() { // the other CPU was busy
		t.Skipf("the kernel ran softirqs on the idle CPU in %d samples: work on idle CPUs is not tested", judged)
	}
	require.GreaterOrEqual(t, judged, 50)
	filter, err := readIdle(&Options{Procfs: "/proc"})
	require.NoError(t, err)
	for _, stack := range *withIdle { // each sample that has a clear answer by its names
		switch kind := kindOf(symbols, stack); kind {
		case idleSoftirq, idleWaiting:
			require.Equal(t, kind == idleWaiting, filter.isLoop(stack), "%v", namesOn(symbols, stack))
		}
	}
	assert.Zero(t, before)
	assert.Zero(t, loop, "the idle loop is left out")
	assert.InDelta(t, 0, math.Log(float64(work)/float64(judged)), math.Log(3), "timers of two rings do not fire at the same instants")
}

// TestLocatedWhileSampling verifies that a sampler begins again when the kernel is located, and only then. Messages go on:
// no time is missing between them but that of the beginning.
func TestLocatedWhileSampling(t *testing.T) {
	kerneltest.NeedPerf(t)
	for name, c := range map[string]struct {
		symbols string // of the kernel as it is located
		want    bool   // it has the idle loop
	}{"found": {idleSymbols, true}, "not found": {"ffffffff81000000 T _text\nffffffff81001000 T _etext\n", false}} {
		t.Run(name, func(t *testing.T) {
			core, err := kallsyms.ParseCore(strings.NewReader(c.symbols), "amd64", "", "")
			require.NoError(t, err)
			var located *timeline.Image
			var missing []error // of each beginning
			var sent []*Message
			ctx, cancel := context.WithCancel(t.Context())
			sampler := &Sampler{
				Options: Options{
					Threads: Running{Event: EventClock, Frequency: 97}, Buffer: 1 << 16, Interval: 50 * time.Millisecond, MaxSamples: 1 << 20,
					Procfs: writeKallsyms(t, hiddenSymbols), Sysfs: "/sys", Located: func() *timeline.Image { return located },
				},
				Started: func(_ string, m Missing) { missing = append(missing, m.IdleWork) },
				Send: func(_ context.Context, m *Message) {
					sent = append(sent, m)
					if len(sent) == 3 {
						located = core
					}
					if len(sent) == 10 {
						cancel()
					}
				},
			}
			require.ErrorIs(t, sampler.Run(ctx), context.Canceled)
			require.Len(t, missing, 2)
			require.ErrorIs(t, missing[0], ErrIdleWork)
			assert.Equal(t, c.want, missing[1] == nil)
			for i := range sent[1:] {
				if !sent[i+1].Start.Equal(sent[i].End) {
					assert.GreaterOrEqual(t, i, 3, "it began again then")
					assert.True(t, sent[i+1].Start.After(sent[i].End), "no time is in two messages")
				}
			}
		})
	}
}

// The kinds of stacks of an idle task, by the names on them.
const (
	notIdle     = iota
	idleWaiting // no interrupt, and no call from another CPU
	idleSoftirq
	idleOther
)

func kindOf(symbols *kerneltest.Symbols, stack []uint64) int {
	names := namesOn(symbols, stack)
	entered := func(name string) bool { // on x86, on arm64, by polling
		return strings.HasPrefix(name, "asm_") || strings.HasPrefix(name, "el1") || strings.Contains(name, "flush_smp")
	}
	switch {
	case !slices.Contains(names, "do_idle") && !slices.Contains(names, "cpu_startup_entry"):
		return notIdle
	case slices.Contains(names, "handle_softirqs"), slices.Contains(names, "__do_softirq"):
		return idleSoftirq
	case !slices.ContainsFunc(names, entered):
		return idleWaiting
	}
	return idleOther
}

// namesOn returns the names of the functions on a stack.
func namesOn(symbols *kerneltest.Symbols, stack []uint64) (names []string) {
	for i, addr := range stack {
		if i > 0 {
			addr--
		}
		below, _ := symbols.Below(addr)
		names = append(names, below...)
	}
	return names
}

// sendPackets sends packets over the loopback device of a network namespace of its own, until ctx is done. It sends on
// one CPU; the kernel processes what arrives on another.
func sendPackets(ctx context.Context, t *testing.T, sender, worker int) {
	runtime.LockOSThread() // and never unlocks: the thread ends with the goroutine
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		t.Errorf("making a network namespace: %v", err)
		return
	}
	sysfs := t.TempDir()
	for _, err := range []error{
		unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""),
		unix.Mount("sysfs", sysfs, "sysfs", 0, ""),
		os.WriteFile(sysfs+"/class/net/lo/queues/rx-0/rps_cpus", fmt.Appendf(nil, "%x", 1<<worker), 0o600),
		unix.Unmount(sysfs, unix.MNT_DETACH),
		bringUpLoopback(),
	} {
		if err != nil {
			t.Errorf("preparing the network namespace: %v", err)
			return
		}
	}
	var cpus unix.CPUSet
	cpus.Set(sender)
	if err := unix.SchedSetaffinity(0, &cpus); err != nil {
		t.Errorf("moving to CPU %d: %v", sender, err)
		return
	}
	to, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Errorf("opening a socket: %v", err)
		return
	}
	defer to.Close() //nolint:errcheck // nothing was written
	from, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Errorf("opening a socket: %v", err)
		return
	}
	defer unix.Close(from) //nolint:errcheck // what is lost is not read anyway
	packet := make([]byte, 1000)
	address := &unix.SockaddrInet4{Port: to.LocalAddr().(*net.UDPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}
	for ctx.Err() == nil {
		for range 8 {
			_ = unix.Sendto(from, packet, 0, address) // nothing reads the socket, so its buffer is full
		}
		pause := unix.Timespec{Nsec: 20_000}
		_ = unix.Nanosleep(&pause, nil)
	}
}

// bringUpLoopback brings the first network device up, by a request of rtnetlink(7).
func bringUpLoopback() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // the request was sent at once
	const loopback = 1
	var request []byte
	for _, field := range []any{
		uint32(unix.SizeofNlMsghdr + unix.SizeofIfInfomsg), // struct nlmsghdr
		uint16(unix.RTM_NEWLINK), uint16(unix.NLM_F_REQUEST), uint32(0), uint32(0),
		uint32(unix.AF_UNSPEC), int32(loopback), uint32(unix.IFF_UP), uint32(unix.IFF_UP), // struct ifinfomsg
	} {
		if request, err = binary.Append(request, binary.NativeEndian, field); err != nil {
			return err
		}
	}
	return unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

// TestLocatedWhileWaitsAreWhole verifies that sampling begins again, too, if only the text of the kernel was missing: waits
// are summed from then on. What runs beside it ends before the rings are opened again.
func TestLocatedWhileWaitsAreWhole(t *testing.T) {
	kerneltest.NeedPerf(t)
	core, err := kallsyms.ParseCore(strings.NewReader("ffffffff81000000 T _text\nffffffff81000100 T schedule\nffffffff81001000 T _etext\n"), "amd64", "", "")
	require.NoError(t, err)
	proc := writeKallsyms(t, hiddenSymbols)
	require.NoError(t, os.MkdirAll(filepath.Join(proc, "self", "ns"), 0o755))
	for _, scheduler := range []bool{false, true} {
		var located *timeline.Image
		begun := 0
		var order []string
		ctx, cancel := context.WithCancel(t.Context())
		sampler := &Sampler{
			Options: Options{
				Threads: Waiting{MaxSwitches: unlimited, Scheduler: scheduler, Sum: true}, Buffer: 1 << 18, Interval: 50 * time.Millisecond,
				MaxSamples: 1 << 20, Procfs: proc, Sysfs: "/sys", Located: func() *timeline.Image { return located },
			},
			Started: func(string, Missing) { begun++; order = append(order, "started") },
			Beside: func(ctx context.Context) {
				<-ctx.Done()
				order = append(order, "beside ends")
			},
			Send: func(context.Context, *Message) {
				if begun == 2 {
					cancel()
				}
				located = core
			},
		}
		require.ErrorIs(t, sampler.Run(ctx), context.Canceled)
		assert.Equal(t, []string{"started", "beside ends", "started", "beside ends"}, order, "scheduler: %v", scheduler)
	}
}
