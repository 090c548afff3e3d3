// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// A renamed thread works in the kernel and has two names in turns.
type renamed struct {
	tid   int64
	names []nameTime
}

// nameTime is a time in which a thread certainly has a name.
type nameTime struct {
	name     string
	from, to time.Time
}

// startRenamed starts such a thread, and returns its id. The returned function ends it.
func startRenamed(t *testing.T) (tid int64, end func() *renamed) {
	t.Helper()
	var stop atomic.Bool
	started, done := make(chan struct{}), make(chan error, 1)
	r := new(renamed)
	go func() {
		runtime.LockOSThread() // and never unlocks: the thread ends with the goroutine
		r.tid = int64(unix.Gettid())
		close(started)
		comm := fmt.Sprintf("/proc/self/task/%d/comm", r.tid)
		random, err := os.Open("/dev/urandom")
		for n := 0; err == nil && !stop.Load(); n++ {
			is := nameTime{name: fmt.Sprint("name", n%2)}
			err = os.WriteFile(comm, []byte(is.name), 0o600)
			is.from = time.Now()
			for err == nil && time.Since(is.from) < 50*time.Millisecond {
				_, err = random.Read(make([]byte, 1<<14))
			}
			is.to = time.Now()
			r.names = append(r.names, is)
		}
		_ = random.Close()
		done <- err
	}()
	<-started
	return r.tid, func() *renamed {
		t.Helper()
		stop.Store(true)
		require.NoError(t, <-done)
		return r
	}
}

// nameAt returns the name that the thread had at a time, or an empty string if that is not certain.
func (r *renamed) nameAt(at time.Time) string {
	const uncertain = time.Millisecond // of the conversion of times, and the time that a renaming takes
	for _, is := range r.names {
		if at.After(is.from.Add(uncertain)) && at.Before(is.to.Add(-uncertain)) {
			return is.name
		}
	}
	return ""
}

// namedSample is a sample of a thread.
type namedSample struct {
	name string
	at   time.Time
}

// samplesOf returns the samples of a thread in messages.
func samplesOf(t *testing.T, sent []*Message, tid int64) (samples []namedSample) {
	t.Helper()
	for _, m := range sent {
		for _, pd := range m.Profiles {
			for _, resource := range pd.ResourceProfiles().All() {
				for _, s := range resource.ScopeProfiles().At(0).Profiles().At(0).Samples().All() {
					attributes, err := pprofile.FromAttributeIndices(pd.Dictionary().AttributeTable(), s, pd.Dictionary())
					require.NoError(t, err)
					raw := attributes.AsRaw()
					name, _ := raw[keyThreadName].(string)
					for _, at := range s.TimestampsUnixNano().All() {
						if raw[keyThreadID] == tid {
							samples = append(samples, namedSample{name, time.Unix(0, int64(at))})
						}
					}
				}
			}
		}
	}
	return samples
}

// stormTime is how long a storm lasts, and how long things are watched before and after it.
var stormTime = time.Duration(kerneltest.Sized(int(time.Second), int(3*time.Second)))

// TestStorms has a user flood the kernel's records of threads. No sample is lost, none has a wrong name, lost names are
// counted, and when the storm is over, threads have names again.
func TestStorms(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.NeedPerf(t)
	for _, kind := range kerneltest.Storms {
		t.Run(kind, func(t *testing.T) {
			sent := make(chan *Message, 1000)
			started, ended := make(chan struct{}), make(chan error, 1)
			sampler := &Sampler{
				Options: Options{
					Threads: Running{Event: EventClock, Frequency: 97}, Buffer: 256 << 10, Interval: 500 * time.Millisecond, MaxSamples: 20_000,
					Procfs: "/proc", Sysfs: "/sys",
				},
				Started: func(string, Missing) { close(started) },
				Send:    func(_ context.Context, m *Message) { sent <- m },
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			tid, endThread := startRenamed(t)
			go func() { ended <- sampler.Run(ctx) }()
			select {
			case <-started:
			case err := <-ended:
				require.NoError(t, err)
			}
			var samples []namedSample
			var lost, lostNames uint64
			receive := func() {
				for range len(sent) {
					m := <-sent
					lost, lostNames = lost+m.Lost, lostNames+m.LostNames
					samples = append(samples, samplesOf(t, []*Message{m}, tid)...)
				}
			}
			// sample goes on until there are some samples with a name, and some names are lost if they have to be; or for a minute.
			sample := func(names uint64) (end time.Time) {
				const some = 10
				began, named := time.Now(), 0
				for time.Since(began) < stormTime || (named < some || lostNames < names) && time.Since(began) < time.Minute {
					time.Sleep(sampler.Options.Interval / 5)
					receive()
					named = 0
					for _, s := range samples {
						if s.name != "" && s.at.After(began) {
							named++
						}
					}
				}
				return time.Now()
			}
			begin := sample(0)
			endStorm := kerneltest.StartStorm(t, kind, "")
			least := uint64(0)
			if kind == "rename" {
				least = 1
			}
			sample(least)
			n := endStorm()
			over := time.Now()
			sample(least)
			thread := endThread()
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
			receive()

			var named, all [3]int // before the storm, while it lasts, and after it
			for _, s := range samples {
				want := thread.nameAt(s.at)
				if want == "" {
					continue
				}
				if s.name != "" {
					require.Equal(t, want, s.name, "at %v", s.at)
				}
				phase := 0
				if s.at.After(begin) {
					phase = 1
				}
				if s.at.After(over) {
					phase = 2
				}
				all[phase]++
				if s.name != "" {
					named[phase]++
				}
			}
			t.Logf("%d times; %d of %d samples with a name before, %d of %d while, %d of %d after it; %d names lost",
				n, named[0], all[0], named[1], all[1], named[2], all[2], lostNames)
			assert.Zero(t, lost, "samples")
			assert.Positive(t, all[1], "samples while it lasts")
			assert.Positive(t, named[0])
			assert.Greater(t, named[2], all[2]/3, "names return") // the thread is renamed, so its name is recorded
			assert.GreaterOrEqual(t, lostNames, least)
		})
	}
}

// TestStormOfCgroups has a user make and remove cgroups as fast as possible, while containers come and go. No
// sample is lost, and none has a wrong container. After the storm, new containers are known as soon as
// directories may be read again: the record of the first one can be lost together with the storm's.
func TestStormOfCgroups(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	mount := mountCgroup2(t)
	require.NoError(t, os.Chmod(filepath.Dir(mount), 0o755)) //nolint:gosec // for another user
	const dir = "/user.slice/user@65534.service"
	makeCgroup(t, mount, dir)
	require.NoError(t, os.Chown(dirOf(mount, dir), kerneltest.Nobody, kerneltest.Nobody))
	makeCgroup(t, mount, filepath.Dir(dockerPath(1)))
	sampler, sent := containerSampler(mount)
	sampler.Options.Interval = scanInterval
	var lost, lostNames uint64
	right, again, made := 0, 0, 0
	check := func() {
		for range len(sent) {
			m := <-sent
			lost, lostNames = lost+m.Lost, lostNames+m.LostNames
			threads := samplesByThread(t, m)
			for _, n := range []int{0, 1, 2, 3, 9} {
				for id, samples := range threads[fmt.Sprint("work", n)] {
					if id != "" {
						assert.Equal(t, filepath.Base(dockerPath(n)), id)
						right += samples
					}
				}
			}
			again += threads["work9"][filepath.Base(dockerPath(9))]
		}
	}
	missing := runWhile(t, sampler, func() {
		end := kerneltest.StartStorm(t, kerneltest.StormOfCgroups, dirOf(mount, dir))
		for n := range 4 {
			makeCgroup(t, mount, dockerPath(n))
			workIn(t, mount, dockerPath(n), fmt.Sprint("work", n), lifetime)
			kerneltest.RemoveCgroup(t, dirOf(mount, dockerPath(n)))
		}
		made = end()
		makeCgroup(t, mount, dockerPath(9))
		for began := time.Now(); again == 0 && time.Since(began) < time.Minute; check() {
			workIn(t, mount, dockerPath(9), "work9", lifetime)
		}
	})
	check()
	require.NoError(t, missing)
	t.Logf("%d cgroups; %d samples with a container; %d names lost", made, right, lostNames)
	assert.Zero(t, lost, "samples")
	assert.Positive(t, again, "containers are known again")
}

// TestWaitsInAStorm has a user rename a thread as often as possible. Waits do not need the names of threads, so none is lost.
func TestWaitsInAStorm(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	const naps = 20
	var tid int
	sent := waitsWhile(t, waitOptions(), func() {
		end := kerneltest.StartStorm(t, "rename", "")
		time.Sleep(stormTime / 2)
		tid = onThread(func() {
			for range naps {
				pause := unix.NsecToTimespec(int64(20 * time.Millisecond))
				_ = unix.Nanosleep(&pause, nil)
			}
		})
		end()
	})
	long := 0
	for _, w := range realWaits(t, sent) {
		if w.tid == tid && w.waited > 15*time.Millisecond {
			long++
		}
	}
	lost, lostNames, unknown := uint64(0), uint64(0), 0
	for _, m := range sent {
		lost, lostNames, unknown = lost+m.Lost, lostNames+m.LostNames, unknown+m.Unknown.All()
	}
	t.Logf("%d of %d naps; %d waits and %d names lost", long, naps, unknown, lostNames)
	assert.Zero(t, lost)
	assert.Positive(t, lostNames)
	assert.GreaterOrEqual(t, long, naps-1, "a nap can be interrupted")
	assert.LessOrEqual(t, unknown, 4*runtime.NumCPU())
}

// TestNamesInAPause renames a thread in a long pause: so often that the rings of names cannot hold all of it, but slowly.
func TestNamesInAPause(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.NeedPerf(t)
	const portion = nameBuffer / 2 / 40 // a record takes 40 bytes
	sampler := &Sampler{Options: waitOptions()}
	method := method{event: perfring.Switches{}, kind: kindOfWaits, sampler: func(out *outbox) threadSampler { return &running{out: out} }}
	lost := func() uint64 {
		rings, nameless, err := openWithNames(sampler.ringOptions(method), perfring.Open)
		require.NoError(t, errors.Join(nameless, err))
		defer func() { require.NoError(t, rings.Close()) }()
		require.NoError(t, rings.Pause())
		s := newSession(sampler, opened{rings: rings, method: method}, nil, time.Now())
		s.since = math.MaxInt64
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			onThread(func() {
				pinToOne(t) // one ring gets all of it
				comm := fmt.Sprintf("/proc/self/task/%d/comm", unix.Gettid())
				for n := range 4 * portion {
					if err := os.WriteFile(comm, fmt.Append(nil, n), 0o600); err != nil {
						t.Errorf("renaming a thread: %v", err)
					}
					if n%portion == 0 {
						time.Sleep(2 * pollInterval)
					}
				}
			})
		}()
		require.NoError(t, s.readNames(ctx, time.Hour))
		require.NoError(t, s.add(t.Context(), rings.Flush()))
		return s.out.counts.LostNames
	}
	const tries = 5 // a busy machine may not let this process run
	for range tries {
		if lost() == 0 {
			return
		}
	}
	t.Error("names are lost in each pause")
}

// pinToOne has the calling thread, to which the goroutine must be locked, run on one CPU.
func pinToOne(t *testing.T) {
	t.Helper()
	var allowed, one unix.CPUSet
	err := unix.SchedGetaffinity(0, &allowed)
	for cpu := 0; one.Count() == 0 && cpu < len(allowed)*64; cpu++ {
		if allowed.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	if err = errors.Join(err, unix.SchedSetaffinity(0, &one)); err != nil {
		t.Errorf("pinning a thread: %v", err)
	}
}

// TestNoMemoryForNames samples as a user whose processes have locked nothing else, and may lock as much as the rings of
// samples take. Samples have no names, and the error says why.
func TestNoMemoryForNames(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	if os.Getenv(asOther) == "" {
		kerneltest.NeedPerf(t)
		if os.Getuid() != 0 {
			t.Skip("only root can become another user: not tested")
		}
		const unused = kerneltest.Nobody - 1
		runAgain(t, kerneltest.Shared(t, "/proc/self/exe"), &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: unused, Gid: unused}, AmbientCaps: []uintptr{unix.CAP_PERFMON},
		})
		return
	}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{}))
	free, err := freeMemory()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sent := make(chan *Message, 1000)
	started, ended := make(chan Missing, 1), make(chan error, 1)
	sampler := &Sampler{
		Options: Options{
			Threads: Running{Event: EventClock, Frequency: 97}, Buffer: free, Interval: scanInterval, MaxSamples: 20_000, Procfs: "/proc", Sysfs: "/sys",
		},
		Started: func(_ string, missing Missing) { started <- missing },
		Send:    func(_ context.Context, m *Message) { sent <- m },
	}
	go func() { ended <- sampler.Run(ctx) }()
	var missing Missing
	select {
	case missing = <-started:
	case err := <-ended:
		require.NoError(t, err)
	}
	tid, end := startRenamed(t)
	var samples []namedSample
	for tooLate := time.After(time.Minute); len(samples) == 0; {
		select {
		case m := <-sent:
			samples = samplesOf(t, []*Message{m}, tid)
		case <-tooLate:
			require.Fail(t, "no sample of the thread")
		}
	}
	end()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.ErrorIs(t, missing.Err(), ErrNames)
	require.ErrorIs(t, missing.Names, perfring.ErrMemory)
	require.ErrorContains(t, missing.Names, "CAP_IPC_LOCK")
	for _, s := range samples {
		assert.Empty(t, s.name)
	}
}

// freeMemory returns the size of the largest rings that this user may have, and that leave no room for rings of names.
func freeMemory() (bytes int, err error) {
	for bytes = os.Getpagesize(); ; bytes *= 2 {
		rings, err := perfring.Open(perfring.Options{Event: perfring.Sampling{Frequency: 1}, BytesPerCPU: bytes, SysFS: "/sys"})
		if err != nil {
			return bytes / 2, nil //nolint:nilerr // the size before was the largest
		}
		if err := rings.Close(); err != nil {
			return 0, err
		}
	}
}
