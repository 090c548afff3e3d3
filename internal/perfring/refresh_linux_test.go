// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// twoCPUs returns two CPUs that are online. It skips the test if there is only one.
func twoCPUs(t *testing.T) (first, second int) {
	t.Helper()
	cpus := online(t)
	if len(cpus) < 2 {
		t.Skip("one CPU: what takes two is not tested")
	}
	return cpus[0], cpus[1]
}

// setOnline writes to a sysfs which CPUs are online.
func setOnline(t *testing.T, sysfs string, cpus ...int) {
	t.Helper()
	writeCPUs(t, sysfs, "online", cpus)
}

// writeCPUs writes a list of CPUs to a sysfs.
func writeCPUs(t *testing.T, sysfs, list string, cpus []int) {
	t.Helper()
	name := filepath.Join(sysfs, "devices/system/cpu", list)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(cpus), " ", ","), "[]")
	require.NoError(t, os.WriteFile(name, []byte(text+"\n"), 0o600))
}

// setIncarnation makes a sysfs look as if a CPU had gone offline and come back.
func setIncarnation(t *testing.T, sysfs string, cpu int) {
	t.Helper()
	dir := filepath.Join(sysfs, "devices/system/cpu", fmt.Sprint("cpu", cpu), "topology")
	require.NoError(t, os.MkdirAll(dir+"~", 0o755)) // before the old one is removed and its inode becomes free
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.Rename(dir+"~", dir))
}

// TestCPUsComeAndGo shows the reader CPUs that come online and go offline. The rings are real.
func TestCPUsComeAndGo(t *testing.T) {
	first, second := twoCPUs(t)
	opts := options()
	opts.SysFS = t.TempDir()
	setOnline(t, opts.SysFS, first)
	r := open(t, opts)
	kerneltest.Busy(t)
	for _, cpus := range [][]int{{first}, {first, second}, {second}, {first, second}} {
		setOnline(t, opts.SysFS, cpus...)
		require.NoError(t, r.RefreshCPUs(false))
		r.Flush() // earlier records
		missing := slices.Clone(cpus)
		readUntil(t, r, func(rec Record) bool {
			require.Contains(t, cpus, int(rec.CPU))
			missing = slices.DeleteFunc(missing, func(cpu int) bool { return cpu == int(rec.CPU) })
			return len(missing) == 0
		})
	}
}

// TestEventThatDied has an event that no longer counts, as after its CPU was briefly offline.
func TestEventThatDied(t *testing.T) {
	first, _ := twoCPUs(t)
	opts := options()
	opts.SysFS = t.TempDir()
	setOnline(t, opts.SysFS, first)
	setIncarnation(t, opts.SysFS, first)
	r := open(t, opts)
	kerneltest.Busy(t)
	readUntil(t, r, isSample)
	require.NoError(t, unix.IoctlSetInt(r.state.main.rings[0].fd, unix.PERF_EVENT_IOC_DISABLE, 0))
	setIncarnation(t, opts.SysFS, first)
	require.NoError(t, r.RefreshCPUs(false))
	r.Flush()
	readUntil(t, r, isSample)
}

// TestBlindCPU: the time in which a CPU had no ring, or may have had a dead one, is blind, and
// reported once. The time before Open is not blind.
func TestBlindCPU(t *testing.T) {
	first, second := twoCPUs(t)
	opts := quiet()
	opts.SysFS = t.TempDir()
	setOnline(t, opts.SysFS, first)
	r := open(t, opts)
	refresh := func(hotplug bool) (blind []Interval) {
		t.Helper()
		require.NoError(t, r.RefreshCPUs(hotplug))
		blind = r.Poll().Blind
		assert.Empty(t, r.Poll().Blind, "once")
		return blind
	}
	// expect checks for an interval that begins with the previous look.
	expect := func(blind []Interval, after, before int64) {
		t.Helper()
		require.Len(t, blind, 1)
		assert.False(t, blind[0].Lost)
		assert.True(t, after <= blind[0].From && blind[0].From <= before, "%+v, %d, %d", blind, after, before)
		assert.True(t, before <= blind[0].To && blind[0].To <= r.clock.Now())
	}
	assert.Empty(t, refresh(false), "nothing changed")
	for _, tt := range []struct {
		name    string
		change  func()
		hotplug bool
	}{
		{"a CPU came", func() { setOnline(t, opts.SysFS, first, second) }, false},
		{"it went and came", func() { setIncarnation(t, opts.SysFS, second) }, false},
		{"one went and came, with a uevent", func() { setIncarnation(t, opts.SysFS, first) }, true},
		{"a uevent and no change", func() {}, true},
	} {
		t.Log(tt.name)
		after := r.clock.Now()
		refresh(false)
		before := r.clock.Now()
		tt.change()
		expect(refresh(tt.hotplug), after, before)
	}
	setOnline(t, opts.SysFS, second)
	assert.Empty(t, refresh(true), "a CPU went")
}

// TestBlindOfflineCPU: on a CPU that goes offline, threads of the kernel run after the last record. The time is blind for
// switches, and not for names.
func TestBlindOfflineCPU(t *testing.T) {
	first, second := twoCPUs(t)
	opts := switches()
	opts.Names = Names{BytesPerCPU: 32 << 10}
	opts.SysFS = t.TempDir()
	setOnline(t, opts.SysFS, first, second)
	r := open(t, opts)
	before := r.clock.Now()
	setOnline(t, opts.SysFS, first)
	require.NoError(t, r.RefreshCPUs(false))
	b := r.Flush()
	blind := withoutLosses(b.Blind)
	require.Len(t, blind, 1)
	assert.True(t, blind[0].From <= before && before <= blind[0].To, "%+v, %d", blind, before)
	assert.Empty(t, withoutLosses(b.Names.Blind))
	require.NoError(t, r.RefreshCPUs(false))
	assert.Empty(t, withoutLosses(r.Flush().Blind), "once")
}

// withoutLosses returns the intervals that are blind for other reasons than full rings.
func withoutLosses(blind []Interval) []Interval {
	return slices.DeleteFunc(blind, func(i Interval) bool { return i.Lost })
}

// TestContract_5_2_MissesCPU verifies that an online CPU without a ring is noticed until a batch has its blind interval,
// and that the list of online CPUs is read only where a possible CPU has no ring.
func TestContract_5_2_MissesCPU(t *testing.T) {
	first, second := twoCPUs(t)
	opts := quiet()
	opts.SysFS = t.TempDir()
	setOnline(t, opts.SysFS, first)
	writeCPUs(t, opts.SysFS, "possible", []int{first, second})
	r := open(t, opts)
	assert.False(t, r.MissesCPU(), "the other CPU is offline")
	setOnline(t, opts.SysFS, first, second)
	assert.True(t, r.MissesCPU())
	require.NoError(t, r.RefreshCPUs(false))
	assert.True(t, r.MissesCPU(), "no batch has the blind interval")
	assert.NotEmpty(t, r.Poll().Blind)
	assert.False(t, r.MissesCPU())

	setOnline(t, opts.SysFS)
	assert.False(t, r.MissesCPU(), "each possible CPU has a ring: the list, which is no list now, is not read")
	setOnline(t, opts.SysFS, second)
	require.NoError(t, r.RefreshCPUs(false))
	assert.False(t, r.MissesCPU())
	setOnline(t, opts.SysFS)
	assert.True(t, r.MissesCPU(), "it is not known which CPUs are online")
}

// TestMissesCPUWithoutSysfs verifies that, where sysfs is not mounted, no CPU is missed if each has a ring.
func TestMissesCPUWithoutSysfs(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	if possible, err := readCPUs("/sys", "possible"); err != nil || !slices.Equal(possible, online(t)) {
		t.Skip("more CPUs are possible than online: that all have rings is not tested")
	}
	opts := quiet()
	opts.SysFS = t.TempDir()
	assert.False(t, open(t, opts).MissesCPU())
}

// BenchmarkMissesCPU measures reading the list of online CPUs, which it does where a possible CPU has no ring.
func BenchmarkMissesCPU(b *testing.B) {
	r, err := Open(quiet())
	if err != nil {
		b.Skipf("no perf events (%v)", err)
	}
	defer func() { _ = r.Close() }()
	r.state.cpus = 0 // as if another CPU were possible
	b.ReportAllocs()
	for b.Loop() {
		r.MissesCPU()
	}
}

// TestNothingIsCertainWithoutRings: while it is not known which CPUs are online, or a ring is
// missing, Certain does not advance.
func TestNothingIsCertainWithoutRings(t *testing.T) {
	first, second := twoCPUs(t)
	opts := quiet()
	opts.SysFS = t.TempDir()
	setOnline(t, opts.SysFS, first)
	r := open(t, opts)
	certain, looked := r.Poll().Certain, r.clock.Now()
	name := filepath.Join(opts.SysFS, "devices/system/cpu/online")
	require.NoError(t, os.WriteFile(name, []byte("nonsense"), 0o600))
	require.Error(t, r.RefreshCPUs(false))
	assert.Equal(t, certain, r.Poll().Certain)
	setOnline(t, opts.SysFS, first, second)
	require.NoError(t, r.RefreshCPUs(false))
	b := r.Poll()
	assert.Greater(t, b.Certain, certain)
	require.Len(t, b.Blind, 1)
	assert.Less(t, b.Blind[0].From, looked)
}

// TestSuspend: after a suspend, all rings are reopened, and the time since the last batch is
// blind. The test only pretends to suspend the machine.
func TestSuspend(t *testing.T) {
	r := open(t, quiet())
	r.Poll()
	before := r.clock.Now()
	assert.Empty(t, r.Poll().Blind)
	awake := r.clock.Now()
	old := slices.Clone(r.state.main.rings)
	pretendSuspend(r)
	b := r.Poll()
	require.Len(t, b.Blind, 1)
	assert.True(t, before <= b.Blind[0].From && b.Blind[0].From <= awake, "since the last batch")
	assert.True(t, awake <= b.Blind[0].To && b.Blind[0].To <= r.clock.Now())
	require.Len(t, r.state.main.rings, len(old))
	for i, g := range r.state.main.rings {
		assert.NotSame(t, old[i], g)
	}
	assert.Empty(t, r.Poll().Blind, "once")
}

// TestSuspendAfterALateCPU verifies that the time before the last batch is blind as well if a CPU had no ring then.
func TestSuspendAfterALateCPU(t *testing.T) {
	first, second := twoCPUs(t)
	opts := quiet()
	opts.SysFS = t.TempDir()
	setOnline(t, opts.SysFS, first)
	writeCPUs(t, opts.SysFS, "possible", []int{first, second})
	r := open(t, opts)
	require.NoError(t, r.RefreshCPUs(false))
	setOnline(t, opts.SysFS, first, second)
	online := r.clock.Now()
	r.Poll()
	require.True(t, r.MissesCPU())
	pretendSuspend(r)
	b := r.Poll()
	require.Len(t, b.Blind, 1)
	assert.LessOrEqual(t, b.Blind[0].From, online)
	assert.False(t, r.MissesCPU())
}

// TestSuspendAfterACPUWent verifies that a suspend does not hide that a CPU went offline before the last batch.
func TestSuspendAfterACPUWent(t *testing.T) {
	first, second := twoCPUs(t)
	opts := switches()
	opts.SysFS = t.TempDir()
	setOnline(t, opts.SysFS, first, second)
	r := open(t, opts)
	require.NoError(t, r.RefreshCPUs(false))
	setOnline(t, opts.SysFS, first)
	offline := r.clock.Now()
	r.Poll()
	pretendSuspend(r)
	blind := withoutLosses(r.Poll().Blind)
	require.Len(t, blind, 1)
	assert.LessOrEqual(t, blind[0].From, offline)
}

// pretendSuspend has a reader find that the machine was suspended for a second.
func pretendSuspend(r *Reader) {
	truly := r.slept
	r.slept = func() (least, most int64) {
		least, most = truly()
		return least + int64(time.Second), most + int64(time.Second)
	}
}

// TestSlept: the bounds of a machine that has not been suspended never contradict each other.
func TestSlept(t *testing.T) {
	_, most := slept()
	for range kerneltest.Sized(100_000, 10_000) {
		least, now := slept()
		if least > most {
			t.Fatalf("suspended for %d ns at least, after %d at most", least, most)
		}
		most = now
	}
}
