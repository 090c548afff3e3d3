// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/procname"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/timeline/timelinetest"
)

// by returns a record as a record of process pid.
func by(pid uint32, r perfring.Record) perfring.Record {
	r.PID = pid
	return r
}

// began returns a watchedRecords that has shown an empty table.
func began(t *testing.T) *watchedRecords {
	t.Helper()
	w := &watchedRecords{history: timeline.NewBuilder(remembered), loaders: newLoaders(t.TempDir())}
	w.changes.loaders = w.loaders
	lines, _ := w.apply()
	require.Empty(t, lines)
	return w
}

// TestNamesNoProcessOfAnUnload verifies that an unload has no process, because it can run in a
// softirq that interrupted any process. A load has none either if the process has no id in this
// namespace.
func TestNamesNoProcessOfAnUnload(t *testing.T) {
	const a, b, c = 0xffffffffc0001000, 0xffffffffc0002000, 0xffffffffc0003000
	w := began(t)
	lines, _ := w.apply(by(77, symbolRecord(1, a, false)), by(0, symbolRecord(2, b, false)), by(perfring.NoTask, symbolRecord(3, c, false)))
	require.Len(t, lines, 3)
	assert.Equal(t, &procname.Process{PID: 77}, lines[0].Process)
	assert.Nil(t, lines[1].Process)
	assert.Nil(t, lines[2].Process)
	lines, _ = w.apply(by(77, symbolRecord(4, a, true)), by(77, symbolRecord(5, b, true)))
	require.Len(t, lines, 2)
	for _, line := range lines {
		assert.Equal(t, eventUnload, line.Event)
		assert.Nil(t, line.Process)
		assert.NotNil(t, line.Delay, "the record has a time")
	}
	assert.Empty(t, w.loaders.by)
}

// TestPrintsInTheOrderOfTime uses one table with several changes.
func TestPrintsInTheOrderOfTime(t *testing.T) {
	const a, b, c = 0xffffffffc0001000, 0xffffffffc0002000, 0xffffffffc0003000
	w := began(t)
	_, _ = w.apply(symbolRecord(1, b, false), symbolRecord(2, c, false))
	lines, _ := w.apply(symbolRecord(3e9, c, true), symbolRecord(4e9, a, false), symbolRecord(5e9, b, true), symbolRecord(6e9, b, false))
	var got []string
	for _, line := range lines {
		got = append(got, line.Event+" "+line.Address.String()[12:])
	}
	assert.Equal(t, []string{"unload 3000", "load 1000", "unload 2000", "load 2000"}, got)
}

// TestHasNoTimeOfAModule verifies that a module's change has the time at which it was noticed,
// because events of modules carry no time.
func TestHasNoTimeOfAModule(t *testing.T) {
	const start = 0xffffffffc0200000
	h := timeline.NewBuilder(remembered)
	c := changes{}
	require.Empty(t, c.next(h.Table()))
	now := perfring.Boottime.Now()
	m := timelinetest.NewImage(t, timelinetest.Text{
		Name: "veth", Origin: timeline.OriginModule, Base: start, Start: start, End: start + 0x1000,
		Lifetime: timeline.Since(now - int64(time.Hour)),
	}, timelinetest.Symbol{Name: "veth_init"})
	h.Load(m)
	lines := c.next(h.Table())
	h.Unload(m, now-int64(time.Minute))
	lines = append(lines, c.next(h.Table())...)
	require.Len(t, lines, 2)
	for _, line := range lines {
		assert.Nil(t, line.Delay)
		assert.WithinDuration(t, time.Now(), line.Time, 30*time.Second, "when it was noticed")
		assert.Equal(t, uint64(0x1000), line.Bytes)
	}
}

// TestHasNoLengthOfATrampoline verifies that a trampoline has no length, because the kernel
// announces it with a page that it shares.
func TestHasNoLengthOfATrampoline(t *testing.T) {
	w := began(t)
	lines, _ := w.apply(symbolRecord(1, 0xffffffffc0001000, false))
	require.Len(t, lines, 1)
	assert.Zero(t, lines[0].Bytes)
	var json strings.Builder
	require.NoError(t, printer{printable.New(&json, false), true}.print(&lines[0]))
	assert.NotContains(t, json.String(), `"bytes"`)
}

// TestOnThePage prints the output that the page shows.
func TestOnThePage(t *testing.T) {
	if kerneltest.InVM() {
		t.Skip("docs is not in the virtual machine")
	}
	text, err := os.ReadFile("../../../../docs/tool.md")
	require.NoError(t, err)
	page := string(text)
	ms := func(d time.Duration) *milliseconds { m := milliseconds(d); return &m }
	at := func(milli int) time.Time {
		return time.Date(2026, 11, 23, 18, 38, 20, 0, time.UTC).Add(time.Duration(milli) * time.Millisecond)
	}
	loader := &procname.Process{PID: 28542, Name: "loader"}
	all := []change{
		{at(922), eventLoad, "bpf", 0xffffffffc0025de8, 55, "bpf_prog_2e5a4300140595ee_shake", 677573, loader, ms(800 * time.Microsecond)},
		{at(974), eventUnload, "bpf", 0xffffffffc0026158, 20, "bpf_prog_974a6a48cf8ca42e", 677575, nil, ms(1300 * time.Microsecond)},
		{at(2871), eventLoad, "module", 0xffffffffc0613000, 53248, "veth", 0, nil, nil},
	}
	printed := func(changes []change, json bool) string {
		var text strings.Builder
		p := printer{printable.New(&text, false), json}
		require.NoError(t, p.begin())
		for i := range changes {
			require.NoError(t, p.print(&changes[i]))
		}
		return "```\n" + text.String() + "```\n"
	}
	assert.Contains(t, page, printed(all, false))
	assert.Contains(t, page, printed(all[1:2], true))
	var message strings.Builder
	u := unshown{brief: 12, news: true}
	u.say(printable.New(&message, false), true)
	assert.Contains(t, strings.ReplaceAll(page, "\n", " "), "`"+strings.TrimSpace(message.String())+"`")
}
