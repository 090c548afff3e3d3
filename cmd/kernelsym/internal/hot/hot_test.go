// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// frame returns a kernel frame. If name is empty, the frame has no name.
func frame(name, module string) rewritetest.Frame {
	f := rewritetest.Frame{Address: 0x1000, Type: "kernel", Mapping: &rewritetest.Mapping{File: module}}
	if name != "" {
		f.Lines = []rewritetest.Line{{Name: name, System: name}}
	}
	return f
}

var (
	leaf    = frame("leaf", "vmlinux")
	middle  = frame("middle", "ext4")
	root    = frame("root", "vmlinux")
	unnamed = frame("", "vmlinux")
)

// epoch is the start of the first batch of a test.
var epoch = time.Unix(1000, 0)

// newBatch returns the samples of the second with this number. 100 samples were possible.
func newBatch(second int, stacks ...[]rewritetest.Frame) *live.Batch {
	m := rewritetest.NewMessage().Profile(nil, "")
	for _, s := range stacks {
		m.Sample(s...)
	}
	start := epoch.Add(time.Duration(second) * time.Second)
	return &live.Batch{
		Messages: []*rewrite.Named{written(m)}, Kernel: len(stacks), User: 20, Start: start, End: start.Add(time.Second),
		Event: "cpu-clock", Frequency: 50, CPUs: 2,
	}
}

// written returns a message with the names that it came with.
func written(m *rewritetest.Message) *rewrite.Named {
	n, err := rewrite.AsWritten(m.Profiles)
	if err != nil {
		panic(err)
	}
	return n
}

func stack(frames ...rewritetest.Frame) []rewritetest.Frame { return frames }

// cells returns the text of rows.
func cells(t topview.Table, by string) (all [][]string) {
	for _, r := range t.Rows(by) {
		all = append(all, r.Cells)
	}
	return all
}

// TestShares verifies that shares are relative to all CPU time, and that a function on a stack
// several times counts once.
func TestShares(t *testing.T) {
	v := NewFunctions(CPUTime, 0, BySelf)
	v.Add(newBatch(0,
		stack(leaf, middle, root), stack(leaf, leaf, middle, root), stack(leaf, root), stack(middle, root), stack(unnamed, root)))
	assert.Equal(t, [][]string{
		{"20.00%", "20.00%", "[user space]", ""},
		{"3.00%", "3.00%", "leaf", "vmlinux"},
		{"1.00%", "3.00%", "middle", "ext4"},
		{"1.00%", "1.00%", "[no name]", "vmlinux"},
		{"0.00%", "5.00%", "root", "vmlinux"},
	}, cells(v, BySelf))
	assert.Equal(t, [][]string{
		{"20.00%", "20.00%", "[user space]", ""},
		{"0.00%", "5.00%", "root", "vmlinux"},
		{"3.00%", "3.00%", "leaf", "vmlinux"},
		{"1.00%", "3.00%", "middle", "ext4"},
		{"1.00%", "1.00%", "[no name]", "vmlinux"},
	}, cells(v, ByTotal))
	assert.InDelta(t, 0.05, v.Rows(ByTotal)[1].Share, 1e-9)
	assert.Equal(t, []string{
		"cpu-clock at 50 Hz on 2 CPUs, 1s: 5 kernel samples, 0 lost",
		"Percent of all CPU time: kernel 5.0, user space 20.0. Frames named: 92.3%",
	}, v.Header())
}

// TestUserSpaceHasItsPlace verifies that user space is sorted in among the functions.
func TestUserSpaceHasItsPlace(t *testing.T) {
	v := NewFunctions(CPUTime, 0, BySelf)
	b := newBatch(0, stack(leaf), stack(leaf), stack(root))
	b.User = 2
	v.Add(b)
	var names []string
	for _, r := range v.Rows(BySelf) {
		names = append(names, r.Cells[2])
	}
	assert.Equal(t, []string{"leaf", UserSpace, "root"}, names)
	assert.Nil(t, v.Detail(v.Rows(BySelf)[1].Key), "it has no callers")
}

// TestPlaceholdersAreNotNamed verifies that placeholders count as unnamed code of their module.
func TestPlaceholdersAreNotNamed(t *testing.T) {
	c := NewCounts()
	c.Add(newBatch(0,
		stack(leaf, root), stack(frame("[unknown]", "vmlinux")), stack(frame("vmlinux+0x1000", "vmlinux"))).Messages[0])
	assert.Equal(t, int64(4), c.Frames)
	assert.Equal(t, int64(2), c.Named)
	assert.Equal(t, []Function{{Name: printable.NoName, Module: "vmlinux"}, {Name: "leaf", Module: "vmlinux"}, {Name: "root", Module: "vmlinux"}}, c.sorted(BySelf, 0))
}

func TestCallers(t *testing.T) {
	v := NewFunctions(CPUTime, 0, BySelf)
	v.Add(newBatch(0,
		stack(leaf, middle, root), stack(leaf, leaf, middle, root), stack(leaf, root), stack(leaf)))
	callers := v.Detail(v.Rows(BySelf)[1].Key)
	assert.Equal(t, "callers of leaf [vmlinux]", callers.Title())
	assert.Contains(t, callers.Header()[0], "It was on the stack of 4 samples, 4.00% of all CPU time")
	assert.Equal(t, [][]string{
		{"2", "50.00%", "middle", "ext4"},
		{"1", "25.00%", "[entry]", ""},
		{"1", "25.00%", "leaf", "vmlinux"},
		{"1", "25.00%", "root", "vmlinux"},
	}, cells(callers, ByTotal))
	assert.Equal(t, "callers of middle [ext4]", callers.Detail(callers.Rows(ByTotal)[0].Key).Title())
	assert.Nil(t, callers.Detail(callers.Rows(ByTotal)[1].Key), "nothing calls the entry")

	gone := v.Detail("gone\x00vmlinux")
	assert.Empty(t, gone.Rows(ByTotal))
	assert.Equal(t, []string{"No samples now of gone [vmlinux]."}, gone.Header())
}

// TestInlined verifies that the caller of an inlined function is the function it was inlined into,
// and that the caller includes its time.
func TestInlined(t *testing.T) {
	inlined := frame("inner", "vmlinux")
	inlined.Lines = append(inlined.Lines, rewritetest.Line{Name: "outer", System: "outer"})
	v := NewFunctions(CPUTime, 0, BySelf)
	b := newBatch(0, stack(inlined, root), stack(leaf, inlined, root))
	b.User = 0
	v.Add(b)
	assert.Equal(t, [][]string{
		{"1.00%", "2.00%", "inner", "vmlinux"},
		{"1.00%", "1.00%", "leaf", "vmlinux"},
		{"0.00%", "2.00%", "outer", "vmlinux"},
		{"0.00%", "2.00%", "root", "vmlinux"},
	}, cells(v, BySelf))
	assert.Equal(t, [][]string{{"2", "100.00%", "outer", "vmlinux"}}, cells(v.Detail("inner\x00vmlinux"), ByTotal))
	assert.Equal(t, [][]string{{"2", "100.00%", "root", "vmlinux"}}, cells(v.Detail("outer\x00vmlinux"), ByTotal))
}

// TestGuests verifies that the time of a CPU in a guest is not the kernel's time.
func TestGuests(t *testing.T) {
	guest := rewritetest.Frame{Type: "kernel", Lines: []rewritetest.Line{{Name: "[guest]", System: "[guest]"}}}
	v := NewFunctions(CPUTime, 0, BySelf)
	b := newBatch(0, stack(guest), stack(guest), stack(leaf))
	b.User = 3
	v.Add(b)
	assert.Equal(t, [][]string{
		{"3.00%", "3.00%", "[user space]", ""},
		{"2.00%", "2.00%", "[guest]", ""},
		{"1.00%", "1.00%", "leaf", "vmlinux"},
	}, cells(v, BySelf))
	assert.Contains(t, v.Header()[0], ": 1 kernel sample")
	assert.Equal(t, "Percent of all CPU time: kernel 1.0, user space 3.0, guests 2.0. Frames named: 100.0%", v.Header()[1])
	assert.Nil(t, v.Detail(v.Rows(BySelf)[1].Key), "it has no callers")
}

// TestOtherValuesAreLeftOut verifies that times are not added to numbers of samples.
func TestOtherValuesAreLeftOut(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "").Sample(leaf).Profile(nil, "").Sample(root)
	m.LastSample().Values().FromRaw([]int64{1e9})
	m.LastProfile().SampleType().SetUnitStrindex(0)
	none := rewritetest.NewMessage().Profile(nil, "").Sample(leaf) // without a type
	none.LastProfile().SampleType().SetTypeStrindex(0)
	none.LastProfile().SampleType().SetUnitStrindex(0)
	first := NewFile("", "")
	first.Add(written(none))
	first.Add(written(m))
	assert.Equal(t, "1 profile with values of type samples in no unit, 1 profile with values of type samples in count", first.Kinds().Others())

	f := NewFile("", "")
	f.Add(written(m))
	assert.Equal(t, "1 profile with values of type samples in no unit", f.Kinds().Others())
	assert.Equal(t, int64(1), f.counts.All)
	assert.Equal(t, []Function{{Name: "leaf", Module: "vmlinux"}}, f.counts.sorted(BySelf, 0))
}

// TestWindow verifies that batches older than the window no longer count.
func TestWindow(t *testing.T) {
	v := NewFunctions(CPUTime, 3*time.Second, BySelf)
	assert.Equal(t, []string{"Waiting for the first samples."}, v.Header())
	assert.Empty(t, v.Rows(BySelf))
	v.Add(newBatch(0, stack(root)))
	for second := 1; second <= 3; second++ {
		v.Add(newBatch(second, stack(leaf)))
	}
	assert.Equal(t, [][]string{{"20.00%", "20.00%", "[user space]", ""}, {"1.00%", "1.00%", "leaf", "vmlinux"}}, cells(v, BySelf))
	assert.Contains(t, v.Header()[0], "last 3s: 3 kernel samples, 0 lost")

	all := NewFunctions(CPUTime, 0, BySelf)
	for second := range 10 {
		all.Add(newBatch(second, stack(leaf)))
	}
	assert.Contains(t, all.Header()[0], ", 10s: 10 kernel samples")
}

// TestElapsedIsOfProfilesWithATime verifies that profiles without a time do not affect Elapsed.
func TestElapsedIsOfProfilesWithATime(t *testing.T) {
	f := NewFile("", "")
	for _, start := range []pcommon.Timestamp{0, 5e9, 0, 7e9} {
		m := rewritetest.NewMessage().Profile(nil, "scope")
		p := m.Profiles.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0)
		p.SetTime(start)
		p.SetDurationNano(1e9)
		f.Add(written(m))
	}
	assert.Equal(t, 3*time.Second, f.elapsed())
}

// TestHeaderSaysWhatIsWrong verifies the messages about lost samples, throttling and unavailable
// names.
func TestHeaderSaysWhatIsWrong(t *testing.T) {
	v := NewFunctions(CPUTime, 0, BySelf)
	b := newBatch(0, stack(unnamed))
	b.CPUs, b.Lost, b.Throttled, b.Missing = 1, 7, 2, errors.New("kallsyms: hidden\ngrant CAP_SYSLOG")
	v.Add(b)
	h := v.Header()
	assert.Contains(t, h[0], "on 1 CPU, 1s: 1 kernel sample, 7 lost")
	assert.Equal(t, []string{
		"Samples were lost: shares are too small. Lower -F.",
		"The kernel paused sampling 2 times: shares are too small. Lower -F.",
		"No kernel frame has a name: `kernelsym doctor` says why.",
		"Names are missing: kallsyms: hidden; grant CAP_SYSLOG",
	}, h[2:])
	j := v.JSON(0).(JSON)
	assert.Equal(t, h[2:], j.Problems)
	assert.Equal(t, 2, j.Samples.Throttled)
}

func TestJSON(t *testing.T) {
	v := NewFunctions(CPUTime, 0, ByTotal)
	v.Add(newBatch(0, stack(leaf, root), stack(root)))
	text, err := json.Marshal(v.JSON(1))
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"event": "cpu-clock", "frequency": 50, "cpus": 2, "seconds": 1, "percent_of": "all CPU time",
		"samples": {"kernel": 2, "user": 20, "lost": 0, "possible": 100},
		"kernel_frames": {"all": 3, "named": 3},
		"functions": [{"function": "root", "module": "vmlinux", "self": 1, "total": 2, "self_percent": 1, "total_percent": 2}]
	}`, string(text))
}

// TestFileWithoutNames verifies that the output explains what to do if no frame has a name.
func TestFileWithoutNames(t *testing.T) {
	f := NewFile("", "")
	f.Add(newBatch(0, stack(unnamed)).Messages[0])
	var out bytes.Buffer
	require.NoError(t, f.Print(printable.New(&out, false), BySelf, 0))
	assert.Contains(t, out.String(), "kernelsym doctor")
}
