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

	"github.com/kernelsym/kernelsym/internal/kerneltest"
)

// twoCPUs returns two CPUs that are online. It skips the test if there is one.
func twoCPUs(t *testing.T) (first, second int) {
	t.Helper()
	cpus := online(t)
	if len(cpus) < 2 {
		t.Skip("one CPU: what takes two is not tested")
	}
	return cpus[0], cpus[1]
}

// setOnline makes a sysfs say which CPUs are online.
func setOnline(t *testing.T, sysfs string, cpus ...int) {
	t.Helper()
	name := filepath.Join(sysfs, "devices/system/cpu/online")
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(cpus), " ", ","), "[]")
	require.NoError(t, os.WriteFile(name, []byte(text+"\n"), 0o600))
}

// TestCPUsComeAndGo tells the reader of CPUs that come online and go offline. The
// rings are real.
func TestCPUsComeAndGo(t *testing.T) {
	first, second := twoCPUs(t)
	sysfs := t.TempDir()
	setOnline(t, sysfs, first)
	opts := options()
	opts.SysFS = sysfs
	r := open(t, opts)
	kerneltest.Busy(t)
	recorded := func() (cpus []int) {
		r.refresh = time.Time{}
		readFor(t, r, 50*time.Millisecond) // what was before
		for _, rec := range readFor(t, r, 300*time.Millisecond) {
			if !slices.Contains(cpus, int(rec.CPU)) {
				cpus = append(cpus, int(rec.CPU))
			}
		}
		slices.Sort(cpus)
		return cpus
	}
	for _, cpus := range [][]int{{first}, {first, second}, {second}, {first, second}} {
		setOnline(t, sysfs, cpus...)
		var got []int
		for deadline := time.Now().Add(time.Minute); !slices.Equal(cpus, got) && time.Now().Before(deadline); {
			got = recorded()
		}
		assert.Equal(t, cpus, got)
	}
}

// TestEventThatDied has an event that is not counted any more, as after its CPU
// was offline for a moment.
func TestEventThatDied(t *testing.T) {
	r := open(t, options())
	kerneltest.Busy(t)
	readUntil(t, r, isSample)
	for _, ring := range r.rings {
		require.True(t, ring.alive())
		require.NoError(t, unix.IoctlSetInt(ring.fd, unix.PERF_EVENT_IOC_DISABLE, 0))
		ring.alive()
		require.False(t, ring.alive())
	}
	r.Flush()
	r.refresh = time.Time{}
	readUntil(t, r, isSample)
}

// missed returns the CPUs of which the records say that events may be missing.
func missed(records []Record) (cpus []uint32) {
	for _, rec := range records {
		if rec.Type == TypeMissed {
			cpus = append(cpus, rec.CPU)
		}
	}
	return cpus
}

// TestMissed: that a CPU was not recorded for a while is told, once, and not of those
// that Open began with.
func TestMissed(t *testing.T) {
	first, second := twoCPUs(t)
	opts := SymbolOptions(t.TempDir())
	setOnline(t, opts.SysFS, first)
	r := open(t, opts)
	isMissed := func(rec Record) bool { return rec.Type == TypeMissed }
	refresh := func() { r.refresh = time.Time{} }
	refresh()
	assert.Empty(t, missed(readFor(t, r, 10*time.Millisecond)))

	setOnline(t, opts.SysFS, first, second)
	refresh()
	before := Boottime.Now()
	records := readUntil(t, r, isMissed)
	assert.Equal(t, []uint32{uint32(second)}, missed(records))
	at := records[slices.IndexFunc(records, isMissed)].Time
	assert.True(t, before < at && at < Boottime.Now(), "the time is that of the clock")
	refresh()
	assert.Empty(t, missed(readFor(t, r, 10*time.Millisecond)))

	died := r.rings[0]
	require.NoError(t, unix.IoctlSetInt(died.fd, unix.PERF_EVENT_IOC_DISABLE, 0))
	died.alive()
	refresh()
	assert.Equal(t, []uint32{uint32(died.cpu)}, missed(readUntil(t, r, isMissed)))
}
