// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/hot"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestTopAgreesWithPerf samples the same time with perf. Of the kernel's samples outside of the
// idle task, no function's share may differ by more than three points each time. It may do so once,
// because the two programs do not start and end at the same moment, and the machine's load changes.
// The test compares the starts of functions, so that aliases count as one function.
func TestTopAgreesWithPerf(t *testing.T) {
	needTop(t)
	perf, err := exec.LookPath("perf")
	if err != nil {
		t.Skip("perf is not installed: shares are not compared with perf")
	}
	needIdleCPUs(t, "shares are not compared with perf")
	kerneltest.Busy(t)
	var differ map[uint64]string // functions that differed each time so far
	times := 0
	for try := 1; ; try++ {
		j, addresses, disturbed := sampleWithPerf(t, perf)
		if disturbed == "" {
			var now map[uint64]string
			if now, disturbed = compareWithPerf(t, j, addresses, try == tries); disturbed == "" {
				if times++; times == 1 {
					differ = now
				}
				maps.DeleteFunc(differ, func(start uint64, _ string) bool { return now[start] == "" })
				if len(differ) == 0 {
					return
				}
				disturbed = fmt.Sprint(differ)
			}
		}
		if try == tries {
			if times > 1 {
				require.Empty(t, differ)
			}
			t.Skipf("the machine is too busy (%s): shares are not compared with perf", disturbed)
		}
		t.Logf("sampling again: %s", disturbed)
	}
}

// needIdleCPUs skips the test where others want more than half of the CPUs: two programs that sample beside each other then
// see different times.
func needIdleCPUs(t *testing.T, untested string) {
	t.Helper()
	const looks = 20
	running := 0
	for range looks {
		text, err := os.ReadFile("/proc/stat")
		require.NoError(t, err)
		_, rest, _ := strings.Cut(string(text), "\nprocs_running ")
		count, _, _ := strings.Cut(rest, "\n")
		n, err := strconv.Atoi(count)
		require.NoError(t, err)
		running += n - 1 // without this one
		time.Sleep(25 * time.Millisecond)
	}
	if 2*running > looks*runtime.NumCPU() {
		t.Skipf("%.1f threads want to run on %d CPUs beside this test: %s", float64(running)/looks, runtime.NumCPU(), untested)
	}
}

// tries is the maximum number of times that the machine is sampled until it is undisturbed.
const tries = 4

// compareWithPerf returns the functions whose shares differ. If too much cannot be compared and
// this is not the last try, it returns the reason.
func compareWithPerf(t *testing.T, j hot.JSON, addresses []uint64, last bool) (differ map[uint64]string, disturbed string) {
	t.Helper()
	starts := readFunctionStarts(t)
	ours, theirs := make(map[uint64]float64), make(map[uint64]float64)
	for _, f := range j.Functions {
		ours[starts.of[f.Function]] += 100 * float64(f.Self) / float64(j.Samples.Kernel)
	}
	for _, addr := range addresses {
		theirs[starts.at(addr)] += 100 / float64(len(addresses))
	}
	// Names that several functions share, and unloaded code.
	const mostLeftOut = 2.0 // percent
	if !last && max(ours[0], theirs[0]) >= mostLeftOut {
		return nil, "too much cannot be compared"
	}
	assert.Less(t, ours[0], mostLeftOut, "of top")
	assert.Less(t, theirs[0], mostLeftOut, "of perf")
	const most = 3.0 // points
	differ = make(map[uint64]string)
	worst, compared := 0.0, 0
	for start, share := range theirs {
		if start == 0 || share < 0.5 && ours[start] < 0.5 {
			continue
		}
		if math.Abs(share-ours[start]) > most {
			differ[start] = fmt.Sprintf("%v has %.2f %% in top, %.2f %% in perf", starts.names[start], ours[start], share)
		}
		worst = max(worst, math.Abs(share-ours[start]))
		compared++
	}
	for start, share := range ours {
		if start != 0 && theirs[start] == 0 && share > most {
			differ[start] = fmt.Sprintf("only top has %v, %.2f %%", starts.names[start], share)
		}
	}
	assert.Greater(t, compared, 10, "functions")
	kerneltest.Figure("not compared: %.2f %% of top's samples, %.2f %% of perf's", ours[0], theirs[0])
	kerneltest.Figure("top and perf: %d (%d lost) and %d kernel samples, %d functions of 0.5 %% and more, largest difference %.2f points",
		j.Samples.Kernel, *j.Samples.Lost, len(addresses), compared, worst)
	return differ, ""
}

// TestThreadsAgreeWithPerf samples the same period with perf. Each command's share of the samples outside the
// idle task may differ by at most three points.
func TestThreadsAgreeWithPerf(t *testing.T) {
	needTop(t)
	perf, err := exec.LookPath("perf")
	if err != nil {
		t.Skip("perf is not installed: the shares of threads are not compared with perf")
	}
	needIdleCPUs(t, "the shares of threads are not compared with perf")
	kerneltest.Busy(t)
	for try := 1; ; try++ {
		ours, theirs := make(map[string]float64), make(map[string]float64)
		var all int64
		data := filepath.Join(t.TempDir(), "perf.data")
		beside(t, perf, data, "cpu-clock", func() {
			for _, g := range topGroups(t, "--by", "thread", "--duration", "10s", "-F", "1999") {
				ours[g.Name] += float64(g.Samples)
				all += g.Samples
			}
		})
		out, lost := perfScript(t, perf, data, "pid,comm")
		samples := 0
		for line := range strings.Lines(out) {
			line = strings.TrimSpace(line)
			at := strings.LastIndexByte(line, ' ') // a command can have spaces
			if comm, pid := line[:at], line[at+1:]; pid != "0" {
				theirs[strings.TrimSpace(comm)]++
				samples++
			}
		}
		if (lost || all < 10000 || samples < 10000) && try < tries {
			t.Logf("sampling again: %d and %d samples", all, samples)
			continue
		}
		worst := 0.0
		for comm := range theirs {
			ours, theirs := 100*ours[comm]/float64(all), 100*theirs[comm]/float64(samples)
			worst = max(worst, math.Abs(ours-theirs))
			if try == tries {
				assert.InDelta(t, theirs, ours, 3, comm)
			}
		}
		kerneltest.Figure("top and perf: %d and %d samples, %d commands, largest difference %.2f points", all, samples, len(theirs), worst)
		if worst <= 3 || try == tries {
			return
		}
	}
}

// topGroups samples this machine and returns the groups.
func topGroups(t *testing.T, args ...string) []hot.JSONGroup {
	t.Helper()
	out, errs, err := execute(t, "", append([]string{"top", "--output", "json", "-n", "0"}, args...)...)
	require.NoError(t, err, errs)
	var j hot.GroupsJSON
	decoder := json.NewDecoder(strings.NewReader(out))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&j))
	assert.Equal(t, "all CPU time", j.PercentOf)
	return j.Groups
}

// sampleWithPerf samples the same time with top and with perf. If something makes the shares
// differ, it returns what that is.
func sampleWithPerf(t *testing.T, perf string) (j hot.JSON, addresses []uint64, disturbed string) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "perf.data")
	took := beside(t, perf, data, "cpu-clock:k", func() { j = topJSON(t, "--duration", "15s", "-F", "1999") }).Seconds()
	addresses, lost := perfAddresses(t, perf, data)
	const enough, mostApart, mostLost = 10000, 3.0, 0.01 // samples, seconds, of one
	switch {
	case addresses == nil:
		disturbed = "perf script cannot read what perf record wrote"
	case j.Samples.Kernel < enough || len(addresses) < enough:
		disturbed = fmt.Sprintf("%d and %d samples are too few", j.Samples.Kernel, len(addresses))
	case took-j.Seconds > mostApart:
		disturbed = fmt.Sprintf("perf sampled for %.1f s, top for %.1f s", took, j.Seconds)
	case lost || j.Samples.Throttled > 0 || float64(*j.Samples.Lost) > mostLost*float64(j.Samples.Kernel):
		disturbed = "samples were lost"
	}
	return j, addresses, disturbed
}

// beside has perf record an event while something runs, and returns how long that took.
func beside(t *testing.T, perf, data, event string, run func()) time.Duration {
	t.Helper()
	// With the same frequency, the timers would run in step, and one would always interrupt the
	// other.
	record := exec.CommandContext(t.Context(), perf, "record", "-q", "-a", "-e", event, "-F", "1873", "--no-buildid", "--no-bpf-event", "-o", data)
	record.Env = append(os.Environ(), "HOME="+t.TempDir())
	require.NoError(t, record.Start())
	waitForRings(t, record.Process.Pid)
	began := time.Now()
	run()
	took := time.Since(began)
	require.NoError(t, record.Process.Signal(syscall.SIGINT))
	_ = record.Wait() // its status is the signal
	return took
}

// waitForRings waits until a process has opened perf events.
func waitForRings(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		fds, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "fd", "*"))
		for _, fd := range fds {
			if target, _ := os.Readlink(fd); strings.Contains(target, "perf_event") {
				return true
			}
		}
		return false
	}, 5*time.Minute, 5*time.Millisecond)
}

// functionStarts has the start addresses of functions of the core kernel, modules and BPF.
type functionStarts struct {
	of     map[string]uint64 // by name; 0 if several functions share it
	names  map[uint64][]string
	sorted []uint64
}

func readFunctionStarts(t *testing.T) *functionStarts {
	t.Helper()
	text, err := os.ReadFile("/proc/kallsyms")
	require.NoError(t, err)
	s := &functionStarts{of: make(map[string]uint64), names: make(map[uint64][]string)}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if !slices.Contains([]string{"t", "T", "w", "W"}, fields[1]) {
			continue
		}
		addr, err := strconv.ParseUint(fields[0], 16, 64)
		require.NoError(t, err)
		s.names[addr] = append(s.names[addr], fields[2])
		if _, again := s.of[fields[2]]; again {
			addr = 0
		}
		s.of[fields[2]] = addr
	}
	s.sorted = slices.Sorted(maps.Keys(s.names))
	return s
}

// at returns the start of the function at an address, or 0 if its names do not determine it.
func (s *functionStarts) at(addr uint64) uint64 {
	i, found := slices.BinarySearch(s.sorted, addr)
	if !found {
		i--
	}
	if i < 0 || !slices.ContainsFunc(s.names[s.sorted[i]], func(name string) bool { return s.of[name] != 0 }) {
		return 0
	}
	return s.sorted[i]
}

// perfAddresses returns the kernel addresses in perf's file, without the idle task's, and whether perf lost
// samples.
func perfAddresses(t *testing.T, perf, data string) (list []uint64, lost bool) {
	t.Helper()
	out, lost := perfScript(t, perf, data, "pid,ip")
	if out == "" {
		return nil, true
	}
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		require.Len(t, fields, 2, lines.Text())
		if fields[0] == "0" {
			continue
		}
		addr, err := strconv.ParseUint(fields[1], 16, 64)
		require.NoError(t, err)
		list = append(list, addr)
	}
	return list, lost
}

// perfScript returns some fields of the samples in perf's file, a line for each, and whether perf lost samples.
func perfScript(t *testing.T, perf, data, fields string) (lines string, lost bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), perf, "script", "-i", data, "-F", fields)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	// The kernel's records of BPF programs can be longer than perf expects. Another test may have
	// loaded programs.
	if err != nil && strings.Contains(said.String(), "failed to process type: 17") {
		return "", true
	}
	require.NoError(t, err, said.String())
	return string(out), strings.Contains(said.String(), " lost ")
}
