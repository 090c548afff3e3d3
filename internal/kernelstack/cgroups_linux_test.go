// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// mountCgroup2 mounts the hierarchy of cgroup v2, as machines have it at /sys/fs/cgroup.
func mountCgroup2(t *testing.T) (mount string) {
	t.Helper()
	kerneltest.NeedPerf(t)
	mount = kerneltest.MountCgroup2(t)
	_, err := newCgroups(mount, "/proc")
	if kerneltest.OlderThan(t, 5, 7) {
		require.ErrorIs(t, err, ErrContainers)
		require.ErrorIs(t, err, perfring.ErrUnsupported)
		t.Skip("perf does not record cgroups before Linux 5.7: containers are not tested")
	}
	require.NoError(t, err)
	enableController(t, mount)
	return mount
}

// enableController enables a controller for the cgroups below the root if none is, as systemd does.
func enableController(t *testing.T, mount string) {
	t.Helper()
	if kerneltest.HasController(t, mount) {
		return
	}
	m, missing := sampleWhile(t, mount, func() { workIn(t, mount, "/", "root", lifetime) })
	require.ErrorIs(t, missing, ErrContainers)
	require.ErrorContains(t, missing, "no controller is enabled")
	assert.Equal(t, m.Samples, m.NoContainer, "all samples seem to be of the root")
	kerneltest.EnableController(t, mount)
}

// dirOf returns the directory of a cgroup of this test, or of the root. The cgroups are below one of this process, as others
// may have cgroups of the same names.
func dirOf(mount, path string) string {
	if path == "/" {
		return mount
	}
	return filepath.Join(mount, fmt.Sprintf("kernelsym-test-%d", os.Getpid()), path)
}

// makeCgroup makes a cgroup for threads, with those above it, and removes all of them when the test ends.
func makeCgroup(t *testing.T, mount, path string) {
	t.Helper()
	dir := mount
	for name := range strings.SplitSeq(strings.TrimPrefix(dirOf(mount, path), mount), "/") {
		if name == "" {
			continue
		}
		dir = filepath.Join(dir, name)
		err := os.Mkdir(dir, 0o755)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		require.NoError(t, err)
		made := dir
		t.Cleanup(func() { kerneltest.RemoveCgroup(t, made) })
		require.NoError(t, os.WriteFile(filepath.Join(dir, "cgroup.type"), []byte("threaded"), 0o600))
	}
}

// workIn has a thread with a name of its own work in the kernel, in a cgroup, until it was on a CPU for some time. Then
// the thread leaves the cgroup and ends.
func workIn(t *testing.T, mount, path, name string, onCPU time.Duration) {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocks: the thread ends with the goroutine
		tid := strconv.Itoa(unix.Gettid())
		enter := func(dir string) error { return os.WriteFile(filepath.Join(dir, "cgroup.threads"), []byte(tid), 0o600) }
		rename := func(name string) error { return os.WriteFile("/proc/self/task/"+tid+"/comm", []byte(name), 0o600) }
		err := errors.Join(enter(dirOf(mount, path)), rename(name)) // its samples are told by the name
		random, openErr := os.Open("/dev/urandom")
		err = errors.Join(err, openErr)
		for began := threadTime(); err == nil && threadTime()-began < onCPU; {
			_, err = random.Read(make([]byte, 1<<16))
		}
		done <- errors.Join(err, rename("idle"), enter(mount), random.Close())
	}()
	assert.NoError(t, <-done, name)
}

// threadTime returns how long the calling thread was on a CPU.
func threadTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(err) // every kernel has this clock
	}
	return time.Duration(now.Nano())
}

// lifetime is how long a thread is on a CPU in a cgroup.
var lifetime = time.Duration(kerneltest.Sized(int(200*time.Millisecond), int(time.Second)))

// A workplace is a cgroup in which one thread works. The samples of the thread, which has a name of its own, must have
// its owner.
type workplace struct {
	path   string
	thread string
	owner  owner
}

// workplaces returns cgroups of all kinds.
func workplaces() (all []workplace) {
	id := func(n int) string { return fmt.Sprintf("%064x", 1<<20+n) }
	for n := range 6 {
		for _, path := range []string{
			"/kubepods.slice/kubepods-podab.slice/cri-containerd-" + id(8*n) + ".scope", "/kubepods/podab/" + id(8*n+1),
			"/kubepods.slice/kubepods-podab.slice/crio-" + id(8*n+2) + ".scope/init.scope", "/system.slice/docker-" + id(8*n+3) + ".scope",
			"/docker/" + id(8*n+4), "/machine.slice/libpod-" + id(8*n+5) + ".scope/container", "/docker/" + id(8*n+6) + "/docker/" + id(8*n+7),
		} {
			all = append(all, workplace{path: path})
		}
	}
	for _, path := range []string{
		"/", "/machine.slice/libpod-conmon-" + id(5) + ".scope", "/system.slice/sshd.service", "/system.slice/docker-nothex.scope",
	} {
		all = append(all, workplace{path: path})
	}
	for i := range all {
		all[i].thread, all[i].owner = fmt.Sprintf("work%d", i), ownerOf(all[i].path)
	}
	return all
}

// containerSampler returns a sampler of containers, and the messages that it sends: one, if no other interval is set.
func containerSampler(mount string) (sampler *Sampler, sent chan *Message) {
	sent = make(chan *Message, 1000)
	return &Sampler{
		Options: Options{
			Threads: Running{Event: EventClock, Frequency: kerneltest.Hertz(997)}, Buffer: 1 << 20, Interval: time.Hour, MaxSamples: 1 << 20,
			Procfs: "/proc", Sysfs: "/sys", Containers: true, Cgroupfs: mount,
		},
		Send: func(_ context.Context, m *Message) { sent <- m },
	}, sent
}

// sampleWhile samples containers while something happens. The error says what the sampler missed.
func sampleWhile(t *testing.T, mount string, happens func()) (m *Message, missing error) {
	t.Helper()
	sampler, sent := containerSampler(mount)
	missing = runWhile(t, sampler, happens)
	require.Len(t, sent, 1)
	return <-sent, missing
}

// runWhile runs a sampler of containers while something happens. The error says what the sampler missed.
func runWhile(t *testing.T, sampler *Sampler, happens func()) (missing error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started, ended := make(chan error, 1), make(chan error, 1)
	sampler.Started = func(_ string, missing Missing) { started <- missing.Containers }
	go func() { ended <- sampler.Run(ctx) }()
	select {
	case missing = <-started:
	case err := <-ended:
		require.NoError(t, err)
	}
	happens()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	return missing
}

// samplesByThread returns the number of samples by thread and container. The host has an empty id.
func samplesByThread(t *testing.T, m *Message) map[string]map[string]int {
	t.Helper()
	threads := make(map[string]map[string]int)
	for _, pd := range m.Profiles {
		for _, resource := range pd.ResourceProfiles().All() {
			id, _ := resource.Resource().Attributes().AsRaw()[keyContainer].(string)
			for _, s := range resource.ScopeProfiles().At(0).Profiles().At(0).Samples().All() {
				attributes, err := pprofile.FromAttributeIndices(pd.Dictionary().AttributeTable(), s, pd.Dictionary())
				require.NoError(t, err)
				name, _ := attributes.AsRaw()[keyThreadName].(string)
				if threads[name] == nil {
					threads[name] = make(map[string]int)
				}
				threads[name][id] += s.TimestampsUnixNano().Len()
			}
		}
	}
	return threads
}

// TestContainers has threads work in the cgroups of many containers: some exist when sampling starts, most live for a
// moment only and are gone when the message is made.
func TestContainers(t *testing.T) {
	mount := mountCgroup2(t)
	all := workplaces()
	const existing = 7
	for i, w := range all {
		if makeCgroup(t, mount, filepath.Dir(w.path)); i < existing {
			makeCgroup(t, mount, w.path)
		}
	}
	work := func() {
		var wait sync.WaitGroup
		lanes := make(chan struct{}, runtime.NumCPU())
		for i, w := range all {
			lanes <- struct{}{}
			wait.Go(func() {
				if i >= existing && w.path != "/" {
					makeCgroup(t, mount, w.path)
				}
				workIn(t, mount, w.path, w.thread, lifetime)
				if i >= existing && w.path != "/" {
					kerneltest.RemoveCgroup(t, dirOf(mount, w.path))
				}
				<-lanes
			})
		}
		wait.Wait()
	}
	m := &Message{LostNames: 1}
	for m.LostNames > 0 { // while other tests rename threads as fast as they can, names are lost
		var missing error
		m, missing = sampleWhile(t, mount, work)
		require.NoError(t, missing)
	}

	threads := samplesByThread(t, m)
	right, wrong, lacking, containers, unknown := 0, 0, 0, 0, 0
	for _, w := range all {
		for id, n := range threads[w.thread] {
			switch {
			case !w.owner.known:
				unknown += n
				assert.Empty(t, id, "%s", w.path)
			case id == w.owner.container:
				right += n
			case id == "":
				lacking += n
				t.Logf("%d samples of %s, in %s, have no container", n, w.thread, w.path)
			default:
				wrong += n
			}
		}
		if n := threads[w.thread][w.owner.container]; n > 0 && w.owner.container != "" {
			containers++
		}
		delete(threads, w.thread)
	}
	others := 0
	for _, ids := range threads {
		for _, n := range ids {
			others += n
		}
	}
	t.Logf("samples in %d containers: %d right, %d wrong, %d without a container; %d of a cgroup of an unknown runtime; %d of other threads; %d not known in all",
		containers, right, wrong, lacking, unknown, others, m.NoContainer)
	assert.Zero(t, wrong)
	assert.Zero(t, lacking)
	assert.Equal(t, len(all)-4, containers)
	assert.GreaterOrEqual(t, right, kerneltest.Sized(1000, 1000))
	assert.Positive(t, unknown)
	assert.GreaterOrEqual(t, m.NoContainer, unknown)
	assert.LessOrEqual(t, m.NoContainer-unknown, m.Samples/100)
}

// TestContainersAreNotKnown samples where the hierarchy of containers cannot be read: no sample has a
// container, each one is counted, and the error gives the reason.
func TestContainersAreNotKnown(t *testing.T) {
	kerneltest.NeedPerf(t)
	kerneltest.Busy(t)
	for _, mount := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		m, missing := sampleWhile(t, mount, func() { time.Sleep(lifetime) })
		require.ErrorIs(t, missing, ErrContainers)
		require.ErrorContains(t, missing, "is not a mount of cgroup v2")
		assert.Positive(t, m.Samples)
		assert.Equal(t, m.Samples, m.NoContainer)
	}
}

// TestContainersOfHybridMachine mounts cgroup v2 where machines have it beside v1. Its containers are known. Anything else may
// be a container in v1, so it is not known to be the host's.
func TestContainersOfHybridMachine(t *testing.T) {
	whole := mountCgroup2(t)
	cgroupfs := t.TempDir()
	unified := filepath.Join(cgroupfs, hybrid)
	require.NoError(t, os.Mkdir(unified, 0o700))
	require.NoError(t, unix.Mount(whole, unified, "", unix.MS_BIND, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(unified, 0)) })
	v1 := filepath.Join(cgroupfs, "named")
	require.NoError(t, os.Mkdir(v1, 0o700))
	if err := unix.Mount("none", v1, "cgroup", 0, "none,name=kernelsymtest"); errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EINVAL) {
		t.Skipf("this kernel has no cgroup v1: machines with both are not tested (%v)", err)
	} else {
		require.NoError(t, err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(v1, 0)) })
	makeCgroup(t, whole, "/system.slice")

	m, missing := sampleWhile(t, cgroupfs, func() {
		workIn(t, whole, "/system.slice", "daemon", lifetime)
		makeCgroup(t, whole, "/user.slice")
		workIn(t, whole, "/user.slice", "new", lifetime)
		makeCgroup(t, whole, dockerPath(0xabd))
		workIn(t, whole, dockerPath(0xabd), "inner", lifetime)
	})
	require.ErrorIs(t, missing, ErrContainers)
	require.ErrorContains(t, missing, "cgroup v1 only, which this machine has beside "+unified)
	threads := samplesByThread(t, m)
	assert.Len(t, threads["inner"], 1)
	assert.Positive(t, threads["inner"][filepath.Base(dockerPath(0xabd))])
	assert.Positive(t, threads["daemon"][""])
	assert.Positive(t, threads["new"][""])
	assert.GreaterOrEqual(t, m.NoContainer, threads["daemon"][""]+threads["new"][""])
}

// TestContainersInAContainer mounts a part of the hierarchy, as in a node that is itself a container (kind,
// for example). Containers in this part are known, as are new ones. Other cgroups may belong to a container
// outside, and get no id.
func TestContainersInAContainer(t *testing.T) {
	whole := mountCgroup2(t)
	node := fmt.Sprintf("/docker/%064x", 0xabc)
	inner := "/kubepods/podab/" + strings.Repeat("5c", 32)
	makeCgroup(t, whole, node+inner)
	makeCgroup(t, whole, node+"/system.slice")
	part := t.TempDir()
	require.NoError(t, unix.Mount(dirOf(whole, node), part, "", unix.MS_BIND, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(part, 0)) })

	m, missing := sampleWhile(t, part, func() {
		workIn(t, whole, node+inner, "inner", lifetime)
		workIn(t, whole, node+"/system.slice", "kubelet", lifetime)
		makeCgroup(t, whole, node+"/user.slice")
		workIn(t, whole, node+"/user.slice", "new", lifetime)
		workIn(t, whole, "/", "root", lifetime)
	})
	require.ErrorIs(t, missing, ErrContainers)
	require.ErrorContains(t, missing, "mount the host's /sys/fs/cgroup")
	threads := samplesByThread(t, m)
	only := func(thread string) (id string) {
		require.Len(t, threads[thread], 1, thread)
		for id = range threads[thread] {
			return id
		}
		return id
	}
	assert.Equal(t, filepath.Base(inner), only("inner"))
	assert.Equal(t, filepath.Base(node), only("new"))
	assert.Empty(t, only("kubelet"))
	assert.Empty(t, only("root"))
	assert.GreaterOrEqual(t, m.NoContainer, threads["kubelet"][""]+threads["root"][""])
}

// TestRecordsOfContainersAreLost makes more cgroups at once than a ring has room for. The sampler still finds
// those that exist when they are sampled.
func TestRecordsOfContainersAreLost(t *testing.T) {
	mount := mountCgroup2(t)
	makeCgroup(t, mount, "/docker")
	sampler, sent := containerSampler(mount)
	sampler.Options.Interval = 100 * time.Millisecond
	cgroups, err := newCgroups(mount, "/proc")
	require.NoError(t, err)
	methods, err := sampler.Options.Threads.methods(&sampler.Options, true)
	require.NoError(t, err)
	opened, err := sampler.open(methods)
	require.NoError(t, err)
	require.NoError(t, opened.nameless)
	defer func() { require.NoError(t, opened.rings.Close()) }()
	require.NoError(t, cgroups.begin())
	const many = 1500     // also with large pages
	for n := range many { // while nothing reads the rings
		makeCgroup(t, mount, dockerPath(n))
	}
	cgroups.nextScan = time.Time{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- newSession(sampler, opened, cgroups, time.Now()).run(ctx) }()
	last, lost := 0, uint64(0)
	// A slow machine loses samples, too, and the kernel reports a loss with the next record of the same CPU.
	for end := time.Now().Add(time.Minute); (last == 0 || lost == 0) && time.Now().Before(end); {
		workIn(t, mount, dockerPath(many-1), "last", time.Second)
		for range len(sent) {
			m := <-sent
			lost += m.LostNames
			for _, ids := range samplesByThread(t, m) { // names of threads are lost, too
				last += ids[filepath.Base(dockerPath(many-1))]
			}
		}
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	t.Logf("%d records lost; %d samples of the last container", lost, last)
	assert.Positive(t, lost, "records of new cgroups")
	assert.Positive(t, last)
}

// TestLongPath makes cgroups whose paths are too long for a record. The kernel truncates them, and a
// truncated path is not taken for a whole one.
func TestLongPath(t *testing.T) {
	mount := mountCgroup2(t)
	r, err := perfring.Open(perfring.Options{
		Event: perfring.Sampling{Frequency: 1}, BytesPerCPU: 1, SysFS: "/sys",
		Names: perfring.Names{BytesPerCPU: 1 << 20, Cgroups: true},
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()

	container := fmt.Sprintf("docker-%064x.scope", 0xdef)
	var remove []func()
	defer func() {
		for i := len(remove) - 1; i >= 0; i-- {
			remove[i]()
		}
	}()
	parent, err := unix.Open(mount, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	remove = append(remove, func() { require.NoError(t, unix.Close(parent)) })
	const depth = 20
	for n, above := 0, parent; n < depth; n++ {
		name, in := strings.Repeat("x", 250), above
		if n == 0 {
			name = container
		}
		require.NoError(t, unix.Mkdirat(in, name, 0o755))
		remove = append(remove, func() { require.NoError(t, unix.Unlinkat(in, name, unix.AT_REMOVEDIR)) })
		above, err = unix.Openat(in, name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		opened := above
		remove = append(remove, func() { require.NoError(t, unix.Close(opened)) })
	}

	var owners []owner
	longest := 0
	for _, rec := range r.Flush().Names.Records {
		if rec.Type == perfring.TypeCgroup && strings.Contains(rec.Cgroup.Path, container) {
			owners = append(owners, ownerOf(rec.Cgroup.Path))
			longest = max(longest, len(rec.Cgroup.Path))
		}
	}
	require.Len(t, owners, depth)
	assert.Less(t, longest, perfring.MaxCgroupPath)
	whole := (perfring.MaxCgroupPath - len("/"+container)) / len("/"+strings.Repeat("x", 250))
	for n, o := range owners {
		if n <= whole {
			assert.Equal(t, owner{known: true, container: container[len("docker-") : len("docker-")+64]}, o, n)
		} else {
			assert.Equal(t, owner{}, o, n)
		}
	}
}

// TestPerfEventAsV1 mounts the controller perf_event as cgroup v1 while containers are sampled, which takes it from the
// hierarchy of cgroup v2. The sampler ends, and says why; when it starts again, no sample has a container.
func TestPerfEventAsV1(t *testing.T) {
	kerneltest.NeedVM(t) // it changes the whole machine
	mount := mountCgroup2(t)
	makeCgroup(t, mount, dockerPath(1))
	started, ended := make(chan error, 1), make(chan error, 1)
	sampler, _ := containerSampler(mount)
	sampler.Started = func(_ string, missing Missing) { started <- missing.Containers }
	go func() { ended <- sampler.Run(t.Context()) }()
	require.NoError(t, <-started)

	v1 := t.TempDir()
	if err := unix.Mount("cgroup", v1, "cgroup", 0, "perf_event"); err != nil {
		t.Skipf("this kernel has no cgroup v1: %v", err)
	}
	err := <-ended
	require.ErrorIs(t, err, ErrContainers)
	require.ErrorContains(t, err, "perf_event is mounted as cgroup v1")

	m, missing := sampleWhile(t, mount, func() { workIn(t, mount, dockerPath(1), "v1", time.Second) })
	require.ErrorIs(t, missing, ErrContainers)
	assert.Equal(t, m.Samples, m.NoContainer)
	work := samplesByThread(t, m)["v1"]
	t.Logf("with perf_event as v1: %v of %d samples", work, m.Samples)
	assert.Positive(t, work[""])
	assert.Len(t, work, 1)

	require.NoError(t, unix.Unmount(v1, 0))
	isBack := func() bool { _, err := newCgroups(mount, "/proc"); return err == nil }
	require.Eventually(t, isBack, time.Minute, 10*time.Millisecond, "the kernel gives the controller back some time later")
	m, missing = sampleWhile(t, mount, func() { workIn(t, mount, dockerPath(1), "v2", time.Second) })
	require.NoError(t, missing)
	assert.Positive(t, samplesByThread(t, m)["v2"][filepath.Base(dockerPath(1))])
}
