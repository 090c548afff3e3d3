// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/procname"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

var container = strings.Repeat("0a", 32)

var userSpace = rewritetest.Frame{Lines: []rewritetest.Line{{Name: UserSpace, System: UserSpace}}}

// newTasks returns the samples of the second with this number: of two threads of a process in a container, of a process of
// the host, and of an idle CPU. 100 samples were possible.
func newTasks(t *testing.T, second int) *live.Batch {
	t.Helper()
	m := rewritetest.NewMessage()
	task := func(pid, tid, cpu int64, name string, frames ...rewritetest.Frame) {
		indices := m.Sample(frames...).LastSample().AttributeIndices()
		indices.Append(m.Attribute("cpu.logical_number", cpu))
		if pid != 0 {
			indices.Append(m.Attribute("process.pid", pid), m.Attribute("thread.id", tid), m.Attribute("thread.name", name))
		}
	}
	m.Profile(map[string]any{"container.id": container}, "")
	task(10, 10, 0, "nginx", leaf, root)
	task(10, 10, 0, "nginx", userSpace)
	task(10, 11, 1, "worker\x1b[1m", middle, root)
	m.Profile(nil, "")
	task(20, 21, 1, "thread", leaf)
	task(0, 0, 0, "", root)
	start := epoch.Add(time.Duration(second) * time.Second)
	return &live.Batch{
		Messages: []*rewrite.Named{written(m)}, Kernel: 4, User: 1, Start: start, End: start.Add(time.Second),
		Event: "cpu-clock", Frequency: 50, CPUs: 2, NoContainer: 1,
	}
}

// procfsOf returns a procfs of this PID namespace that has the name of a process.
func procfsOf(t *testing.T, pid, name string) procname.Names {
	t.Helper()
	procfs := t.TempDir()
	self, err := os.Readlink("/proc/self")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(procfs, "self")))
	for dir, file := range map[string]string{self: "status", pid: "comm"} {
		require.NoError(t, os.Mkdir(filepath.Join(procfs, dir), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(procfs, dir, file), []byte(name+"\n"), 0o600))
	}
	return procname.In(procfs)
}

func TestGroups(t *testing.T) {
	names := procfsOf(t, "20", "sshd")
	for _, c := range []struct {
		by      Grouping
		columns []string
		rows    [][]string
	}{
		{ByProcess, []string{"TOTAL", "KERNEL", "USER", "PID", "PROCESS"}, [][]string{
			{"3.00%", "2.00%", "1.00%", "10", "nginx"},
			{"1.00%", "1.00%", "0.00%", "-", "[no process]"},
			{"1.00%", "1.00%", "0.00%", "20", "sshd"},
		}},
		{ByThread, []string{"TOTAL", "KERNEL", "USER", "PID", "TID", "THREAD"}, [][]string{
			{"2.00%", "1.00%", "1.00%", "10", "10", "nginx"},
			{"1.00%", "1.00%", "0.00%", "-", "-", "[no process]"},
			{"1.00%", "1.00%", "0.00%", "10", "11", "worker\x1b[1m"},
			{"1.00%", "1.00%", "0.00%", "20", "21", "thread"},
		}},
		{ByContainer, []string{"TOTAL", "KERNEL", "USER", "CONTAINER"}, [][]string{
			{"3.00%", "2.00%", "1.00%", container},
			{"2.00%", "2.00%", "0.00%", "[host]"},
		}},
		{ByCPU, []string{"TOTAL", "KERNEL", "USER", "CPU"}, [][]string{
			{"3.00%", "2.00%", "1.00%", "CPU 0"},
			{"2.00%", "2.00%", "0.00%", "CPU 1"},
		}},
	} {
		t.Run(string(c.by), func(t *testing.T) {
			v := NewGroups(CPUTime, c.by, 0, names)
			assert.Equal(t, []string{"Waiting for the first samples."}, v.Header())
			v.Add(newTasks(t, 0))
			v.Add(newTasks(t, 1))
			var columns []string
			for _, column := range v.Columns() {
				columns = append(columns, column.Name)
			}
			assert.Equal(t, c.columns, columns)
			assert.Equal(t, c.rows, cells(v, ByTime))
			text, err := json.Marshal(v.JSON(1))
			require.NoError(t, err)
			assert.Contains(t, string(text), `"by":"`+string(c.by)+`"`)
			assert.Equal(t, 1, strings.Count(string(text), `"percent":`))
		})
	}
}

// TestFunctionsOfAGroup: Enter goes into a group, and from there to the callers of a function, of its samples only.
func TestFunctionsOfAGroup(t *testing.T) {
	v := NewGroups(CPUTime, ByProcess, 0, procname.Names{})
	v.Add(newTasks(t, 0))
	functions := v.Detail(v.Rows(ByTime)[0].Key)
	assert.Equal(t, "kernel functions of nginx[10]", functions.Title())
	assert.Equal(t, "2 kernel samples, 2.00% of all CPU time; 1.00% in user space.", functions.Header()[0])
	assert.Equal(t, [][]string{
		{"1.00%", "1.00%", "leaf", "vmlinux"},
		{"1.00%", "1.00%", "middle", "ext4"},
		{"1.00%", "1.00%", "[user space]", ""},
		{"0.00%", "2.00%", "root", "vmlinux"},
	}, cells(functions, BySelf))
	callers := functions.Detail("leaf\x00vmlinux")
	assert.Equal(t, "callers of leaf [vmlinux] in nginx[10]", callers.Title())
	assert.Equal(t, [][]string{{"1", "100.00%", "root", "vmlinux"}}, cells(callers, ByTotal))
	assert.Nil(t, v.Detail("none"))
}

// TestNextGrouping: the samples of the window are grouped anew, not only those to come.
func TestNextGrouping(t *testing.T) {
	v := NewGroups(CPUTime, ByProcess, 2*time.Second, procname.Names{})
	for second := range 4 {
		v.Add(newTasks(t, second))
	}
	for _, want := range []string{"threads", "containers", "CPUs", "processes"} {
		v.NextGrouping()
		assert.Equal(t, want, v.Title())
		assert.Equal(t, int64(10), v.window.Sum.sum(), "of two seconds")
	}
	v.Skip()
}

// TestNameOfAProcessThatHasEnded: a process keeps the name that it had.
func TestNameOfAProcessThatHasEnded(t *testing.T) {
	v := NewGroups(CPUTime, ByProcess, 0, procfsOf(t, "20", "sshd"))
	v.Add(newTasks(t, 0))
	v.names = procfsOf(t, "21", "other")
	v.Add(newTasks(t, 1))
	assert.Equal(t, "sshd", v.Rows(ByTime)[2].Cells[4])
}

// TestNamesAreLost verifies that the header of the views that have names says how many records of threads were lost.
func TestNamesAreLost(t *testing.T) {
	for grouping, want := range map[Grouping]bool{ByProcess: true, ByThread: true, ByContainer: false, ByCPU: false} {
		v := NewGroups(CPUTime, grouping, 0, procname.Names{})
		b := newTasks(t, 0)
		v.Add(b)
		const line = "Names can be missing; lost records of threads and cgroups: 7."
		assert.NotContains(t, v.Header(), line)
		b.LostNames = 7
		v.Add(b)
		assert.Equal(t, want, slices.Contains(v.Header(), line), grouping)
	}
}

// TestContainersAreNotKnown: the header says what [host] may have.
func TestContainersAreNotKnown(t *testing.T) {
	v := NewGroups(CPUTime, ByContainer, 0, procname.Names{})
	b := newTasks(t, 0)
	v.Add(b)
	assert.Contains(t, v.Header(), "[host] may have samples of containers: 1.")
	b.Containers, b.Lost, b.Throttled, b.Missing = errors.New("no cgroup v2"), 1, 1, errors.New("hidden")
	v.Add(b)
	assert.Equal(t, []string{
		"Samples were lost: shares are too small. Lower -F.", "The kernel paused sampling 1 time: shares are too small. Lower -F.",
		"[host] may have samples of containers: no cgroup v2", "Names are missing: hidden",
	}, v.Header()[2:])
}

// TestGroupsOfAFile verifies that the samples of a file are grouped, with shares of all of them, and that names come from the
// file alone.
func TestGroupsOfAFile(t *testing.T) {
	for by, want := range map[Grouping]string{
		ByProcess: "5 samples of 2 processes\n\n" +
			"  TOTAL  TOTAL%  KERNEL  KERNEL%  PID  PROCESS\n" +
			"      3   60.0%       2    40.0%   10  nginx\n" +
			"      1   20.0%       1    20.0%   20  [no name]\n",
		ByCPU: "5 samples of 2 CPUs\n\n" +
			"  TOTAL  TOTAL%  KERNEL  KERNEL%  CPU\n" +
			"      3   60.0%       2    40.0%  CPU 0\n" +
			"      2   40.0%       2    40.0%  CPU 1\n",
	} {
		f := NewFile(by, "")
		f.Add(newTasks(t, 0).Messages[0])
		var out strings.Builder
		require.NoError(t, f.Print(printable.New(&out, false), BySelf, 2))
		assert.Equal(t, want, out.String())
		j, ok := f.JSON(BySelf, 1).(GroupsJSON)
		require.True(t, ok)
		assert.Equal(t, "all samples", j.PercentOf)
		require.Len(t, j.Groups, 1)
		assert.InDelta(t, 60, j.Groups[0].Percent, 1e-9)
	}
}

// TestUnknownGroupsOfAFile verifies that samples without the attribute that they are grouped by have no other group: not CPU 0,
// the host, or no process.
func TestUnknownGroupsOfAFile(t *testing.T) {
	type attributes map[string]any
	const head = "  TOTAL  TOTAL%  KERNEL  KERNEL%"
	for _, tt := range []struct {
		by      Grouping
		samples []attributes
		want    string
	}{
		{ByCPU, []attributes{{}}, "1 sample of 0 CPUs\nNo sample has the attribute cpu.logical_number.\n\n" + head + "  CPU\n" +
			"      1  100.0%       1   100.0%  [not known]\n"},
		{ByCPU, []attributes{{}, {"cpu.logical_number": int64(0)}}, "2 samples of 1 CPU\n\n" + head + "  CPU\n" +
			"      1   50.0%       1    50.0%  CPU 0\n" +
			"      1   50.0%       1    50.0%  [not known]\n"},
		{ByContainer, []attributes{{}}, "1 sample of 0 containers\nNo sample has the attribute container.id.\n\n" + head + "  CONTAINER\n" +
			"      1  100.0%       1   100.0%  [not known]\n"},
		{ByProcess, []attributes{{"thread.id": int64(7), "thread.name": "x"}}, "1 sample of 0 processes\nNo sample has the attribute process.pid.\n\n" +
			head + "  PID  PROCESS\n" +
			"      1  100.0%       1   100.0%    -  [not known]\n"},
		{ByThread, []attributes{{"thread.id": int64(7), "thread.name": "x"}, {"process.pid": int64(7), "thread.name": "y"}}, "2 samples of 1 thread\n\n" +
			head + "  PID  TID  THREAD\n" +
			"      1   50.0%       1    50.0%    -    7  x\n" +
			"      1   50.0%       1    50.0%    -    -  [not known]\n"},
	} {
		m := rewritetest.NewMessage().Profile(nil, "")
		for _, of := range tt.samples {
			indices := m.Sample(leaf).LastSample().AttributeIndices()
			for key, value := range of {
				indices.Append(m.Attribute(key, value))
			}
		}
		f := NewFile(tt.by, "")
		f.Add(written(m))
		var out strings.Builder
		require.NoError(t, f.Print(printable.New(&out, false), BySelf, 0))
		assert.Equal(t, tt.want, out.String())
		text, err := json.Marshal(f.JSON(BySelf, 0))
		require.NoError(t, err)
		assert.Contains(t, string(text), `{"samples":1,`, "no id of what is not known")
		assert.Equal(t, strings.Contains(tt.want, "No sample"), strings.Contains(string(text), `"problems":["No sample`))
	}
}

// TestHostsOfAFile verifies that equal ids of two hosts are two groups.
func TestHostsOfAFile(t *testing.T) {
	m := rewritetest.NewMessage()
	for _, host := range []struct{ key, name, process string }{{"host.name", "vm", "shared"}, {"host.name", "vm", "shared"}, {"k8s.node.name", "node\x1b", "mysqld"}} {
		m.Profile(map[string]any{host.key: host.name}, "").Sample(leaf).LastSample().AttributeIndices().Append(m.Attribute("process.pid", int64(5566)),
			m.Attribute("thread.id", int64(5566)), m.Attribute("thread.name", host.process), m.Attribute("cpu.logical_number", int64(0)))
	}
	for by, want := range map[Grouping]string{
		ByProcess: "3 samples of 2 processes\n\n" +
			"  TOTAL  TOTAL%  KERNEL  KERNEL%   HOST   PID  PROCESS\n" +
			"      2   66.7%       2    66.7%     vm  5566  shared\n" +
			"      1   33.3%       1    33.3%  node�  5566  mysqld\n",
		ByCPU: "3 samples of 2 CPUs\n\n" +
			"  TOTAL  TOTAL%  KERNEL  KERNEL%   HOST  CPU\n" +
			"      2   66.7%       2    66.7%     vm  CPU 0\n" +
			"      1   33.3%       1    33.3%  node�  CPU 0\n",
	} {
		f := NewFile(by, "")
		f.Add(written(m))
		var out strings.Builder
		require.NoError(t, f.Print(printable.New(&out, false), BySelf, 0))
		assert.Equal(t, want, out.String())
		j, ok := f.JSON(BySelf, 0).(GroupsJSON)
		require.True(t, ok)
		assert.Equal(t, []string{"vm", "node\x1b"}, []string{j.Groups[0].Host, j.Groups[1].Host})
	}
}
