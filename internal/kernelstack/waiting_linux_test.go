// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/procfs"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// realWait is a wait of a thread of the running kernel.
type realWait struct {
	pid    int
	tid    int
	thread string
	how    string
	waited time.Duration
	at     time.Time // its end
	stack  []uint64
}

// unlimited is more switches a second than any machine makes.
const unlimited = 1 << 30

func waitOptions() Options {
	return Options{
		Threads: Waiting{MaxSwitches: unlimited}, Buffer: 16 << 20, Interval: time.Hour, MaxSamples: 1 << 20,
		Procfs: "/proc", Sysfs: "/sys",
	}
}

// waitsWhile samples while a function works, and returns the messages.
func waitsWhile(t *testing.T, o Options, work func()) (sent []*Message) {
	t.Helper()
	kerneltest.NeedPerf(t)
	if err := procfs.CheckInitialPIDNamespace("/proc"); err != nil {
		t.Skipf("%v: off-CPU time is not tested", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := make(chan struct{})
	sampler := &Sampler{Options: o}
	sampler.Started = func(event string, missing Missing) {
		assert.Equal(t, "wait", event)
		require.NoError(t, missing.Err())
		close(started)
	}
	sampler.Send = func(_ context.Context, m *Message) { sent = append(sent, m) }
	ended := make(chan error, 1)
	go func() { ended <- sampler.Run(ctx) }()
	select {
	case <-started:
	case err := <-ended:
		require.NoError(t, err)
	}
	work()
	time.Sleep(5 * window) // later records of the work are not certain
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	return sent
}

func realWaits(t *testing.T, sent []*Message) (waits []realWait) {
	t.Helper()
	for _, m := range sent {
		for _, pd := range m.Profiles {
			checkSent(t, pd)
			d := pd.Dictionary()
			profile := pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0)
			from := uint64(profile.Time())
			stacks := stacksOf(pd)
			for i, sample := range profile.Samples().All() {
				at := sample.TimestampsUnixNano().At(0)
				require.True(t, from <= at && at < from+profile.DurationNano())
				attributes, err := pprofile.FromAttributeIndices(d.AttributeTable(), sample, d)
				require.NoError(t, err)
				raw := attributes.AsRaw()
				name, _ := raw[keyThreadName].(string)
				waits = append(waits, realWait{
					int(raw[keyPID].(int64)), int(raw[keyThreadID].(int64)), name, raw[keySwitch].(string), time.Duration(sample.Values().At(0)),
					time.Unix(0, int64(at)), stacks[i],
				})
			}
		}
	}
	return waits
}

// onThread runs a function on a thread of its own, and returns the thread's id.
func onThread(work func()) (tid int) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocks: the thread ends with the goroutine
		tid = unix.Gettid()
		work()
	}()
	<-done
	return tid
}

// slowness is how long an emulated machine takes for a system call, in nanoseconds.
var slowness = float64(kerneltest.Sized(0, int(2*time.Millisecond)))

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// TestSleepers compares the waits of threads that sleep with what their own clocks say.
func TestSleepers(t *testing.T) {
	type sleeper struct {
		tid    int
		pause  time.Duration
		naps   []nap
		waited []time.Duration // during each
	}
	sleepers := []*sleeper{{pause: 10 * time.Millisecond}, {pause: 100 * time.Millisecond}, {pause: time.Second}}
	// A sleeper reads its clock when the kernel has woken it, and does not wait for Go to let it run, too.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU() + 4*len(sleepers)))
	o := waitOptions()
	o.Threads = Waiting{Threshold: time.Millisecond, MaxSwitches: unlimited} // of shorter waits, there are too many
	sent := waitsWhile(t, o, func() {
		var all sync.WaitGroup
		for _, s := range sleepers {
			all.Go(func() {
				s.tid = onThread(func() {
					onCPU := startOnCPUClock(t)
					for begin := time.Now(); time.Since(begin) < 3500*time.Millisecond; {
						s.naps = append(s.naps, takeNap(s.pause, onCPU))
					}
				})
			})
		}
		all.Wait()
	})
	for _, s := range sleepers {
		s.waited = make([]time.Duration, len(s.naps))
	}
	for _, w := range realWaits(t, sent) {
		for _, s := range sleepers {
			if w.tid != s.tid {
				continue
			}
			during := func(n nap) bool { return w.at.After(n.from) && w.at.Before(n.to) }
			if n := slices.IndexFunc(s.naps, during); n >= 0 {
				s.waited[n] += w.waited
			}
		}
	}
	for _, s := range sleepers {
		require.NotEmpty(t, s.naps, s.pause)
		var off []time.Duration
		for _, n := range s.naps {
			off = append(off, n.to.Sub(n.from)-n.onCPU)
		}
		clock, waited := median(off), median(s.waited)
		t.Logf("%v: %d naps, by its own clock %v, off the CPU %v (%+.2f %%)", s.pause, len(s.naps), clock, waited, 100*(waited.Seconds()/clock.Seconds()-1))
		assert.InDelta(t, clock, waited, max(0.02*float64(clock), slowness), s.pause)
	}
}

// nap is a sleep of a thread. The time on the CPU is that before and after it.
type nap struct {
	from, to time.Time
	onCPU    time.Duration
}

func takeNap(pause time.Duration, onCPU func() time.Duration) nap {
	before := onCPU()
	from := time.Now()
	_ = kerneltest.Sleep(pause)
	to := time.Now()
	return nap{from, to, onCPU() - before}
}

// TestWaitsAddUp has a thread sleep and work. It verifies that its waits and its time on a CPU add up to the
// elapsed time: across many messages, which cut its sleeps, and including preemption.
func TestWaitsAddUp(t *testing.T) { checkAddUp(t, Waiting{MaxSwitches: unlimited}) }

// TestSummedWaitsAddUp is TestWaitsAddUp with sums: of the waits of the thread in a message, there are few samples.
func TestSummedWaitsAddUp(t *testing.T) {
	kerneltest.NeedAddresses(t)
	samples, waits := checkAddUp(t, Waiting{MaxSwitches: unlimited, Sum: true})
	assert.Less(t, 2*samples, waits)
}

// checkAddUp returns how many samples the messages have, and for how many waits.
func checkAddUp(t *testing.T, threads Waiting) (samples, waits int) {
	t.Helper()
	o := waitOptions()
	o.Threads, o.Interval = threads, 150*time.Millisecond
	var elapsed, worked time.Duration
	var begin time.Time
	var tid int
	start := time.Now()
	work := func() {
		time.Sleep(50 * time.Millisecond)
		tid = onThread(func() {
			onCPU := startOnCPUClock(t)
			begin = time.Now()
			before := onCPU()
			for time.Since(begin) < 2*time.Second {
				pause := unix.NsecToTimespec(int64(40 * time.Millisecond))
				_ = unix.Nanosleep(&pause, nil)
				for spin := time.Now(); time.Since(spin) < 7*time.Millisecond; {
					continue
				}
			}
			elapsed, worked = time.Since(begin), onCPU()-before
		})
	}
	sent := waitsWhile(t, o, work)
	isLossy := func(m *Message) bool { return m.Lost > 0 }
	for tries := 1; tries < 10 && slices.ContainsFunc(sent, isLossy); tries++ { // on a machine with more work than it can do
		start = time.Now()
		sent = waitsWhile(t, o, work)
	}
	total := time.Since(start)
	assert.Greater(t, len(sent), 1, "sleeps are cut into messages")
	var off time.Duration
	for _, w := range realWaits(t, sent) {
		atWork := w.at.After(begin) && w.at.Before(begin.Add(elapsed)) // it may have waited before and after that
		if w.tid == tid && (atWork || threads.Sum) {
			off += w.waited
		}
	}
	for _, m := range sent {
		require.Zero(t, m.Lost, "records")
		samples, waits = samples+m.Samples, waits+m.Waits
	}
	t.Logf("%v passed, %v of it on a CPU, and %v off it, in %d messages of %d samples of %d waits",
		elapsed, worked, off, len(sent), samples, waits)
	const switches = 2 * 2 * 50 // two in a turn, two ends of each
	tolerance := time.Duration(0.02*float64(elapsed) + switches*slowness/4)
	if threads.Sum { // a sum has one time for all its waits, of which some may have been before or after
		assert.GreaterOrEqual(t, off+worked, elapsed-tolerance)
		assert.LessOrEqual(t, off+worked, total+tolerance)
	} else {
		assert.InDelta(t, elapsed, off+worked, float64(tolerance))
	}
	return samples, waits
}

// TestDeadThreads has a process end whose parent does not yet wait for it. It keeps its number, but has no
// waits.
func TestDeadThreads(t *testing.T) {
	o := waitOptions()
	o.Interval = 100 * time.Millisecond
	var pid int
	var dead time.Time
	sent := waitsWhile(t, o, func() {
		child := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^$")
		require.NoError(t, child.Start())
		pid = child.Process.Pid
		require.Eventually(t, func() bool {
			state, _ := procfs.Status("/proc", strconv.Itoa(pid), "State:")
			return len(state) > 0 && state[0] == "Z"
		}, time.Minute, time.Millisecond)
		dead = time.Now()
		time.Sleep(6 * o.Interval)
		require.NoError(t, child.Wait())
	})
	for _, w := range realWaits(t, sent) {
		assert.False(t, w.tid == pid && w.at.After(dead), "%v after its end: %+v", w.at.Sub(dead), w)
	}
}

// startOnCPUClock returns a clock of how long the calling thread has been on a CPU. It runs from each switch to the next, as
// PERF_FORMAT_TOTAL_TIME_RUNNING of perf_event_open(2) does: CLOCK_THREAD_CPUTIME_ID stands still while a hypervisor has taken
// the CPU (CONFIG_PARAVIRT_TIME_ACCOUNTING).
func startOnCPUClock(t *testing.T) (clock func() time.Duration) {
	t.Helper()
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY, Size: unix.PERF_ATTR_SIZE_VER0,
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
	}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return func() time.Duration {
		var count [16]byte // the value, which stays 0, and the time
		n, err := unix.Read(fd, count[:])
		require.NoError(t, err)
		require.Len(t, count, n)
		return time.Duration(binary.NativeEndian.Uint64(count[8:]))
	}
}

// TestWhatThreadsWaitFor verifies the stacks and the names of waits: of a sleep, a lock, a disk, and of threads of the kernel.
func TestWhatThreadsWaitFor(t *testing.T) {
	kerneltest.NeedAddresses(t)
	dir := t.TempDir()
	var fs unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &fs))
	onDisk := fs.Type != unix.TMPFS_MAGIC && fs.Type != unix.RAMFS_MAGIC && fs.Type != unix.OVERLAYFS_SUPER_MAGIC
	var sleeper, locker, waiter, writer int
	sent := waitsWhile(t, waitOptions(), func() {
		sleeper = onThread(func() { _ = kerneltest.Sleep(200 * time.Millisecond) })
		locker = onThread(func() { waitForLock(t, 200*time.Millisecond) })
		waiter = onThread(func() { <-time.After(200 * time.Millisecond) }) // in a futex: Go parks the thread
		const membarrierGlobal = 1                                         // MEMBARRIER_CMD_GLOBAL of include/uapi/linux/membarrier.h
		for range 3 {                                                      // each is a grace period, for which a thread of the kernel waits
			_, _, err := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0)
			assert.Zero(t, err, "membarrier")
		}
		if onDisk {
			file, err := os.Create(filepath.Join(dir, "file"))
			require.NoError(t, err)
			defer file.Close()
			writer = onThread(func() { writeToDisk(t, file) })
		}
	})
	symbols := kerneltest.ReadSymbols(t)
	longest := map[string]time.Duration{}
	for _, w := range realWaits(t, sent) {
		names := strings.Join(namesOn(symbols, w.stack), " ")
		for what, is := range map[string]bool{
			"a sleep":                w.tid == sleeper && strings.Contains(names, "do_nanosleep"),
			"a lock":                 w.tid == locker && strings.Contains(names, "flock"),
			"a futex":                w.tid == waiter && strings.Contains(names, "futex_wait"),
			"a disk":                 w.tid == writer && strings.Contains(names, "fsync"),
			"a thread of the kernel": strings.Contains(names, "kthread"),
		} {
			if is {
				longest[what] = max(longest[what], w.waited)
			}
		}
	}
	t.Logf("the longest waits: %v", longest)
	// The time of a sleep or a lock runs before the thread leaves the CPU. TestSleepers compares lengths.
	assert.Positive(t, longest["a sleep"])
	assert.Positive(t, longest["a lock"])
	assert.Positive(t, longest["a futex"])
	assert.Positive(t, longest["a thread of the kernel"])
	if onDisk {
		assert.Positive(t, longest["a disk"])
	}
}

// writeToDisk waits for the disk: each time, unless this thread is preempted until the disk is done.
func writeToDisk(t *testing.T, f *os.File) {
	t.Helper()
	block := make([]byte, 1<<20)
	for range 16 {
		_, err := f.Write(block)
		assert.NoError(t, err)
		assert.NoError(t, f.Sync())
	}
}

// TestWaitChannel verifies that the stack of a wait does not begin in the scheduler, and has the function that the kernel
// shows during the wait. It begins there, or in a sleep or lock that this function calls.
func TestWaitChannel(t *testing.T) {
	kerneltest.NeedAddresses(t)
	for what, wait := range map[string]func(time.Duration){
		"a sleep": func(d time.Duration) { _ = kerneltest.Sleep(d) },
		"a lock":  func(d time.Duration) { waitForLock(t, d) },
	} {
		var tid int
		var channel string
		o := waitOptions()
		o.Threads = Waiting{MaxSwitches: unlimited}
		sent := waitsWhile(t, o, func() {
			started := make(chan int)
			go func() {
				channels := map[string]int{}
				tid := <-started
				for range 20 {
					text, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/wchan", tid))
					channels[string(text)]++
					time.Sleep(5 * time.Millisecond)
				}
				delete(channels, "0") // it ran
				for name, n := range channels {
					if n > channels[channel] {
						channel = name
					}
				}
				close(started)
			}()
			tid = onThread(func() { started <- unix.Gettid(); wait(200 * time.Millisecond) })
			<-started
		})
		if channel == "" {
			t.Skip("the kernel does not say what threads wait for: functions are not compared")
		}
		symbols := kerneltest.ReadSymbols(t)
		var longest realWait
		for _, w := range realWaits(t, sent) {
			if w.tid == tid && w.waited > longest.waited {
				longest = w
			}
		}
		require.NotEmpty(t, longest.stack)
		var stack []string
		for _, addr := range longest.stack {
			names, _ := symbols.Below(addr - 1)
			stack = append(stack, names...)
		}
		first, _ := symbols.Below(longest.stack[0])
		t.Logf("%s: %s of %s", what, channel, stack)
		assert.Contains(t, stack, channel, what)
		assert.False(t, slices.ContainsFunc(first, IsScheduler), what)
	}
}

// waitForLock waits for the lock of a file, which is held for a time.
func waitForLock(t *testing.T, d time.Duration) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "lock")
	open := func() int {
		fd, err := unix.Open(name, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
		if err != nil {
			t.Errorf("opening a file: %v", err)
		}
		return fd
	}
	held, waiting := open(), open()
	for _, fd := range []int{held, waiting} {
		defer func() { _ = unix.Close(fd) }()
	}
	if err := unix.Flock(held, unix.LOCK_EX); err != nil {
		t.Errorf("locking a file: %v", err)
	}
	time.AfterFunc(d, func() { _ = unix.Flock(held, unix.LOCK_UN) })
	for unix.Flock(waiting, unix.LOCK_EX) != nil {
		continue // it was interrupted
	}
}

// alternate has two threads on one CPU wake each other for a time. It returns their ids, and how often they did.
func alternate(t *testing.T, d time.Duration) (tids [2]int, turns int) {
	t.Helper()
	var there, back [2]int
	require.NoError(t, unix.Pipe(there[:]))
	require.NoError(t, unix.Pipe(back[:]))
	pin := func() {
		var one unix.CPUSet
		one.Set(runtime.NumCPU() - 1)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Errorf("pinning a thread: %v", err)
		}
	}
	var both sync.WaitGroup
	both.Go(func() {
		tids[0] = onThread(func() {
			pin()
			b := []byte{1}
			for begin := time.Now(); time.Since(begin) < d; turns++ {
				_, _ = unix.Write(there[1], b)
				_, _ = unix.Read(back[0], b)
			}
			_ = unix.Close(there[1])
		})
	})
	both.Go(func() {
		tids[1] = onThread(func() {
			pin()
			b := []byte{1}
			for {
				if n, err := unix.Read(there[0], b); n == 0 || err != nil {
					return
				}
				_, _ = unix.Write(back[1], b)
			}
		})
	})
	both.Wait()
	for _, fd := range []int{there[0], back[0], back[1]} {
		_ = unix.Close(fd)
	}
	return tids, turns
}

// TestTooManySwitches has two threads that strictly alternate switch more often than is allowed. Of the time that is covered,
// each gets its share, and the rest is counted.
func TestTooManySwitches(t *testing.T) {
	o := waitOptions()
	_, possible := alternate(t, time.Second)
	maxSwitches := max(1, possible/20) // fewer than a busy machine leaves time for
	began := 0
	o.Interval, o.Threads = 200*time.Millisecond, Waiting{MaxSwitches: maxSwitches, Before: func() []Blocked { began++; return nil }}
	o.Buffer = 256 << 10 // a half-full ring ends a part: a slow machine, too, has enough of them to average the random pauses
	duration := time.Duration(kerneltest.Sized(int(5*time.Second), int(20*time.Second)))
	var tids [2]int
	var turns int
	sent := waitsWhile(t, o, func() { tids, turns = alternate(t, duration) })
	elapsed := sent[len(sent)-1].End.Sub(sent[0].Start)
	var covered, paused time.Duration
	lost, unknown, pauses := uint64(0), 0, 0
	for _, m := range sent {
		covered, paused, lost = covered+m.End.Sub(m.Start), paused+m.Paused, lost+m.Lost
		if m.Paused > 0 {
			pauses++
		}
	}
	var counts [2]int
	for _, w := range realWaits(t, sent) {
		if i := slices.Index(tids[:], w.tid); i >= 0 {
			counts[i]++
		}
	}
	for _, m := range sent { // a profile covers no time in which nothing was recorded
		for _, pd := range m.Profiles {
			begins := time.Unix(0, int64(pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).Time()))
			assert.WithinDuration(t, m.Start, begins, 3*window+time.Duration(10*slowness))
		}
		unknown += m.Unknown.All()
	}
	if lost == 0 {
		assert.LessOrEqual(t, unknown, 4*runtime.NumCPU(), "waits are lost only with records")
	}
	expected := float64(turns) * covered.Seconds() / elapsed.Seconds()
	t.Logf("%d turns in %v, of which %v were covered and %v were not: %d and %d waits, %.0f by the time covered; %d records lost",
		turns, elapsed, covered, paused, counts[0], counts[1], expected, lost)
	require.Greater(t, paused, elapsed/10, "there were too few switches")
	assert.Equal(t, 1+pauses, began, "blocked threads are read again after a pause")
	assert.InDelta(t, elapsed.Seconds(), (covered + paused).Seconds(), 0.1)
	assert.InEpsilon(t, counts[0], counts[1], 0.05)
	assert.Less(t, float64(counts[0]+counts[1])/duration.Seconds(), 2.5*float64(maxSwitches), "far from the average: the pauses are random")
}

const asOther = "KERNELSYM_TEST_OFF_CPU"

// runAgain runs the calling test again in a process with attributes of its own.
func runAgain(t *testing.T, binary string, attributes *syscall.SysProcAttr) {
	t.Helper()
	child := exec.CommandContext(t.Context(), binary, "-test.run=^"+t.Name()+"$", "-test.v")
	child.Dir = "/"
	child.Env = append(os.Environ(), asOther+"=1")
	child.SysProcAttr = attributes
	out, err := child.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
}

// TestWaitsInAPIDNamespace: where the numbers of other threads are not visible, no wait is sampled.
func TestWaitsInAPIDNamespace(t *testing.T) {
	if os.Getenv(asOther) == "" {
		kerneltest.NeedPerf(t)
		runAgain(t, "/proc/self/exe", &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID})
		return
	}
	sampler := &Sampler{Options: waitOptions()}
	err := sampler.Run(t.Context())
	require.ErrorIs(t, err, procfs.ErrPIDNamespace)
	assert.ErrorContains(t, err, "hostPID")
}

// TestWaitsWithPerfmonAlone samples as another user with the capability CAP_PERFMON and no other.
func TestWaitsWithPerfmonAlone(t *testing.T) {
	if os.Getenv(asOther) != "" {
		o := waitOptions()
		o.Buffer = 256 << 10                                         // what CAP_IPC_LOCK is not needed for
		o.Threads = Waiting{MaxSwitches: unlimited, Scheduler: true} // it may be hidden where that is
		var tid int
		sent := waitsWhile(t, o, func() {
			tid = onThread(func() {
				pause := unix.NsecToTimespec(int64(200 * time.Millisecond))
				_ = unix.Nanosleep(&pause, nil)
			})
			require.NoError(t, exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^$").Run(), "another process")
		})
		waits := realWaits(t, sent)
		assert.True(t, slices.ContainsFunc(waits, func(w realWait) bool { return w.tid == tid && w.how == voluntary }))
		assert.True(t, slices.ContainsFunc(waits, func(w realWait) bool {
			_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", w.tid))
			return os.IsNotExist(err) && w.tid != tid && w.thread != ""
		}), "of others")
		fmt.Println(len(waits), "waits, as user", os.Getuid())
		return
	}
	kerneltest.NeedPerf(t)
	if os.Getuid() != 0 {
		t.Skip("only root can give up all capabilities but one: not tested")
	}
	binary := "/proc/self/exe"
	if !kerneltest.InVM() {
		binary = kerneltest.Shared(t, binary)
	}
	const nobody = 65534
	runAgain(t, binary, &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, AmbientCaps: []uintptr{unix.CAP_PERFMON},
	})
}

// TestContract_6_3_RingsAsLargeAsAllowed samples as another user, who may lock little memory. The rings are smaller than they
// were meant to be, and it is said why.
func TestContract_6_3_RingsAsLargeAsAllowed(t *testing.T) {
	if os.Getenv(asOther) != "" {
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{}))
		o := waitOptions()
		o.Buffer, o.Least = 64<<20, 4<<10 // there is always room for one page: other tests of this user take less than 516 KiB
		o.Threads = Waiting{MaxSwitches: unlimited, Scheduler: true}
		ctx, cancel := context.WithCancel(t.Context())
		var missing Missing
		sampler := Sampler{Options: o, Send: func(context.Context, *Message) {}}
		sampler.Started = func(_ string, m Missing) { missing = m; cancel() }
		require.ErrorIs(t, sampler.Run(ctx), context.Canceled)
		require.NoError(t, missing.Names, "names are more important than large rings")
		require.ErrorIs(t, missing.Err(), ErrRings)
		require.ErrorIs(t, missing.Rings, perfring.ErrMemory)
		require.ErrorContains(t, missing.Rings, "RLIMIT_MEMLOCK is 0)")
		fmt.Println(missing.Rings)
		held, err := perfring.Open(perfring.Options{Event: perfring.Symbols{}, BytesPerCPU: 256 << 10, SysFS: "/sys"})
		require.NoError(t, err)
		smaller, err := TryRings("/proc", "/sys")
		require.NoError(t, held.Close())
		require.ErrorIs(t, cmp.Or(err, smaller), perfring.ErrMemory) // err if other tests of this user have the rest
		return
	}
	kerneltest.NeedPerf(t)
	if os.Getuid() != 0 {
		t.Skip("only root can give up all capabilities but one: not tested")
	}
	if paranoid, err := os.ReadFile("/proc/sys/kernel/perf_event_paranoid"); err == nil && strings.HasPrefix(string(paranoid), "-") {
		t.Skip("all users may lock memory for perf events: not tested")
	}
	binary := "/proc/self/exe"
	if !kerneltest.InVM() {
		binary = kerneltest.Shared(t, binary)
	}
	const nobody = 65534
	runAgain(t, binary, &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, AmbientCaps: []uintptr{unix.CAP_PERFMON},
	})
}

// TestLastSwitch has processes end. No wait of theirs goes on after that, so the kernel under test calls lastFunction and has not
// inlined it.
func TestLastSwitch(t *testing.T) {
	kerneltest.NeedAddresses(t)
	o := waitOptions()
	ends, _ := readCore(&o)
	require.True(t, ends.isKnown())
	ended := map[int]time.Time{} // by process
	sent := waitsWhile(t, o, func() {
		for range kerneltest.Sized(20, 5) {
			child := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^$")
			require.NoError(t, child.Run())
			ended[child.Process.Pid] = time.Now()
		}
	})
	symbols := kerneltest.ReadSymbols(t)
	waits := 0
	for _, w := range realWaits(t, sent) {
		assert.NotContains(t, namesOn(symbols, w.stack), lastFunction, "%+v", w)
		if at, ok := ended[w.pid]; ok {
			waits++
			assert.Less(t, w.at, at.Add(window), "%v", namesOn(symbols, w.stack))
		}
	}
	assert.Positive(t, waits)
}

// startUnreadable starts a process of another user. Once it reads a line from in, it runs a script by a shell that this user may
// not read. Standard output may be nil.
func startUnreadable(t *testing.T, out io.Writer, script string) (child *exec.Cmd, in io.WriteCloser) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can become another user: not tested")
	}
	if err := procfs.CheckInitialPIDNamespace("/proc"); err != nil {
		t.Skipf("%v: off-CPU time is not tested", err)
	}
	unreadable := kerneltest.Shared(t, "/bin/sh")
	require.NoError(t, os.Chmod(unreadable, 0o711)) //nolint:gosec // another user runs it
	child = exec.CommandContext(t.Context(), "/bin/sh", "-c", "read line; exec "+unreadable+" -c '"+script+"'")
	child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: kerneltest.Nobody, Gid: kerneltest.Nobody}}
	child.Stdout = out
	in, err := child.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	return child, in
}

// TestWaitAfterOtherRights has a process run a program that its user may not read, and then wait. The kernel records the end of
// its thread, which goes on: its wait is in each message.
func TestWaitAfterOtherRights(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.NeedAddresses(t)
	kerneltest.NeedPerf(t)
	out, output := io.Pipe()
	child, in := startUnreadable(t, output, "echo runs; read line")

	ctx, cancel := context.WithCancel(t.Context())
	o := waitOptions()
	o.Interval = 100 * time.Millisecond
	sampler := Sampler{Options: o}
	sampler.Started = func(string, Missing) {
		_, err := io.WriteString(in, "go\n")
		require.NoError(t, err)
		_, err = io.ReadFull(out, make([]byte, len("runs\n")))
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			state, _ := procfs.Status("/proc", strconv.Itoa(child.Process.Pid), "State:")
			return len(state) > 0 && state[0] == "S"
		}, time.Minute, time.Millisecond)
	}
	messages := 0
	sampler.Send = func(_ context.Context, m *Message) {
		if messages++; messages == 1 || messages > 3 { // it may wait since the end of the first
			return
		}
		found := slices.ContainsFunc(realWaits(t, []*Message{m}), func(w realWait) bool { return w.tid == child.Process.Pid })
		assert.True(t, found, "message %d", messages)
		if messages == 3 {
			cancel()
		}
	}
	require.ErrorIs(t, sampler.Run(ctx), context.Canceled)
	require.NoError(t, in.Close())
	_ = child.Wait() // it reads no line
}

// TestExecveByAnotherThread has a process call execve on a thread that is not its first, and then work
// without waiting. The thread gets the number of the first thread, which has ended, and whose last switch is
// not a wait.
func TestExecveByAnotherThread(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	if os.Getenv(asOther) != "" {
		const work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
		for { // until it runs on another thread than the first
			onThread(func() {
				if unix.Gettid() != os.Getpid() {
					t.Error(syscall.Exec("/bin/sh", []string{"sh", "-c", work}, nil))
				}
			})
		}
	}
	kerneltest.NeedAddresses(t)
	o := waitOptions()
	o.Interval = 20 * time.Millisecond
	pids := map[int]bool{}
	sent := waitsWhile(t, o, func() {
		for range kerneltest.Sized(5, 2) {
			child := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")
			child.Env = append(os.Environ(), asOther+"=1")
			require.NoError(t, child.Run())
			pids[child.Process.Pid] = true
		}
	})
	symbols := kerneltest.ReadSymbols(t)
	waits := 0
	for _, w := range realWaits(t, sent) {
		if pids[w.tid] {
			waits++
			assert.NotContains(t, namesOn(symbols, w.stack), "do_task_dead", "%+v", w)
		}
	}
	assert.Positive(t, waits)
}
