// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/procname"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
	"github.com/kernelsym/kernelsym/internal/rewrite"
)

// The keys that groups can be sorted by.
const (
	ByTime   = "total"
	ByKernel = "kernel"
)

// Groups is the view of processes, threads, containers or CPUs, and of the functions of each of them.
type Groups struct {
	measure  *Measure
	grouping Grouping
	names    procname.Names
	idle     bool          // show idle kernel threads, too
	length   time.Duration // of the window, 0 for all since the start
	window   topview.Window[*groups]
}

// NewGroups returns a view over the last length of time, or since the start if length is 0. Processes that no sample names
// get their names from names.
func NewGroups(measure *Measure, grouping Grouping, length time.Duration, names procname.Names) *Groups {
	return &Groups{measure: measure, grouping: grouping, names: names, length: length, window: topview.NewWindow(length, newGroups)}
}

// NextGrouping implements topview.Grouper. It groups the samples of the window anew.
func (v *Groups) NextGrouping() {
	v.grouping = Groupings[(slices.Index(Groupings, v.grouping)+1)%len(Groupings)]
	v.recount()
}

// ToggleIdle implements topview.Idler.
func (v *Groups) ToggleIdle() {
	v.idle = !v.idle
	v.recount()
}

// recount counts the samples of the window anew.
func (v *Groups) recount() {
	parts := v.window.Parts
	v.window = topview.NewWindow(v.length, newGroups)
	for _, p := range parts {
		v.Add(p.batch)
	}
}

// Title implements topview.Table.
func (v *Groups) Title() string { return v.grouping.plural() }

// Add implements topview.View.
func (v *Groups) Add(b *live.Batch) { v.window.Add(b, v.grouping.countBatch(b, v.names, v.idle)) }

// Skip implements topview.View.
func (v *Groups) Skip() {}

// Header implements topview.Table.
func (v *Groups) Header() []string {
	s, last := v.window.Sum, v.window.Last
	if last == nil {
		return []string{"Waiting for the first samples."}
	}
	if last.OffCPU {
		return slices.Concat([]string{
			fmt.Sprintf("off-CPU time on %s, %.1fs: waits of at least %s, of %s",
				plural.Of(last.CPUs, "CPU"), s.elapsed.Seconds(), last.Threshold, v.grouping.count(len(s.all))),
		}, v.legend(), recorded(last), s.idle.lines(v.length > 0), v.problems())
	}
	lines := []string{
		fmt.Sprintf("%s at %d Hz on %s, %.1fs: %s, of %s", last.Event, last.Frequency, plural.Of(last.CPUs, "CPU"),
			s.elapsed.Seconds(), plural.Of(int(s.sum()), "sample"), v.grouping.count(len(s.all))),
		"Percent of all CPU time. TOTAL is KERNEL, USER and the time of guests.",
	}
	return append(lines, v.problems()...)
}

// hasStates reports whether groups have the columns of threads that wait.
func (v *Groups) hasStates() bool {
	return v.measure == WaitTime && (v.grouping == ByThread || v.grouping == ByProcess)
}

// legend explains the columns.
func (v *Groups) legend() []string {
	if v.hasStates() {
		return []string{v.measure.legend, "RUNQ: the time in the run queue, also of shorter waits. STATE: now."}
	}
	return []string{v.measure.legend}
}

// problems describes what is wrong with the numbers.
func (v *Groups) problems() (lines []string) {
	s, last := v.window.Sum, v.window.Last
	lines = s.losses.problems(last, s.elapsed)
	switch {
	case v.grouping == ByContainer && last.Containers != nil:
		lines = append(lines, "[host] may have samples of containers: "+last.Containers.Error())
	case v.grouping == ByContainer && s.noContainer > 0:
		lines = append(lines, fmt.Sprintf("[host] may have samples of containers: %d.", s.noContainer))
	}
	if s.losses.names > 0 && (v.grouping == ByProcess || v.grouping == ByThread) {
		lines = append(lines, fmt.Sprintf("Names can be missing; lost records of threads and cgroups: %d.", s.losses.names))
	}
	if v.hasStates() && last.NoThreads != nil {
		lines = append(lines, "RUNQ and STATE are not known: "+last.NoThreads.Error())
	}
	if last.Missing != nil {
		lines = append(lines, topview.Missing(last.Missing))
	}
	return lines
}

// Columns implements topview.Table.
func (v *Groups) Columns() []topview.Column {
	columns := []topview.Column{{Name: "TOTAL", Right: true}}
	if v.measure == CPUTime {
		columns = append(columns, topview.Column{Name: "KERNEL", Right: true}, topview.Column{Name: "USER", Right: true})
	}
	if v.hasStates() {
		columns = append(columns, topview.Column{Name: "RUNQ", Right: true})
	}
	for _, id := range v.grouping.ids() {
		columns = append(columns, topview.Column{Name: id, Right: true})
	}
	columns = append(columns, topview.Column{Name: strings.ToUpper(string(v.grouping))})
	if v.hasStates() {
		columns = append(columns, topview.Column{Name: "STATE"})
	}
	return columns
}

// Sorts implements topview.Table.
func (v *Groups) Sorts() []string {
	if v.measure == CPUTime {
		return []string{ByTime, ByKernel}
	}
	return []string{ByTime}
}

// Rows implements topview.Table.
func (v *Groups) Rows(by string) []topview.Row {
	s := v.window.Sum
	rows := make([]topview.Row, 0, len(s.all))
	full := max(s.possible, float64(s.sum())) // many threads can wait at once
	states := v.states()
	for _, m := range s.sorted(by, v.measure.rank(s.possible)) {
		g := s.all[m]
		count := g.All
		if by == ByKernel {
			count = g.Kernel
		}
		cells := []string{v.measure.share(g.All, s.possible)}
		if v.measure == CPUTime {
			cells = append(cells, format(g.Kernel, s.possible), format(g.user(), s.possible))
		}
		if v.hasStates() {
			cells = append(cells, v.delayOf(m))
		}
		cells = append(cells, v.grouping.idsOf(m)...)
		cells = append(cells, v.grouping.nameOf(m, s.names)+v.grouping.marked(s.before[m]))
		if v.hasStates() {
			cells = append(cells, states[m].text(v.grouping))
		}
		rows = append(rows, topview.Row{Key: m.String(), Cells: cells, Share: percent(count, full) / 100})
	}
	return rows
}

// states returns the states of threads at the end of the window.
func (v *Groups) states() map[member]states {
	if v.window.Last == nil || !v.hasStates() {
		return nil
	}
	return v.grouping.statesOf(v.window.Last.Threads)
}

// delayOf returns the cell of a group in the column RUNQ.
func (v *Groups) delayOf(m member) string {
	delay, ok := v.window.Sum.delays[m]
	if !ok {
		return "-"
	}
	return v.measure.share(delay.Nanoseconds(), v.window.Sum.possible)
}

// marked returns the mark of a group with threads that have waited since before the start.
func (by Grouping) marked(threads map[int64]bool) string {
	switch n := len(threads); {
	case n == 0:
		return ""
	case by == ByThread:
		return " (" + sinceBefore + ")"
	default:
		return fmt.Sprintf(" (%s %s)", plural.Of(n, "thread"), sinceBefore)
	}
}

// Detail implements topview.Table. It returns the functions of a group.
func (v *Groups) Detail(key string) topview.Table {
	for m := range v.window.Sum.all {
		if m.String() == key {
			return &functionTable{measure: v.measure, of: v.grouping.labelOf(m, v.window.Sum.names), by: BySelf, sums: func() *sums { return v.window.Sum.of(m) }}
		}
	}
	return nil
}

// GroupsJSON is the output of a Groups view for other programs.
type GroupsJSON struct {
	topview.Sampling
	Seconds   float64     `json:"seconds"`
	PercentOf string      `json:"percent_of"`
	Unit      string      `json:"unit,omitempty"` // of groups: nanoseconds of waits; empty for numbers of samples
	By        Grouping    `json:"by"`
	Possible  float64     `json:"possible,omitempty"` // samples, if no CPU had been idle; missing for a file
	Lost      uint64      `json:"lost"`
	Throttled int         `json:"throttled"`
	Idle      int         `json:"idle_kernel_threads,omitempty"` // that were left out
	Problems  []string    `json:"problems,omitempty"`
	Groups    []JSONGroup `json:"groups"`
}

// JSONGroup is one row. What is not known, or does not belong to the grouping, is left out.
type JSONGroup struct {
	Host      string  `json:"host,omitempty"`
	PID       int64   `json:"pid,omitempty"`
	TID       int64   `json:"tid,omitempty"`
	Name      string  `json:"name,omitempty"`
	Container string  `json:"container_id,omitempty"`
	CPU       *int64  `json:"cpu,omitempty"`
	Samples   int64   `json:"samples"`
	Kernel    int64   `json:"kernel"`
	Guest     int64   `json:"guest,omitempty"`
	User      int64   `json:"user"`
	Percent   float64 `json:"percent"`

	// Of threads that wait, and of processes.
	Delay  *int64         `json:"run_queue,omitempty"`    // time for which it could run but had no CPU, in nanoseconds
	States map[string]int `json:"states,omitempty"`       // numbers of threads that wait at the end
	Before int            `json:"since_before,omitempty"` // threads that have waited since before the start
}

// JSON implements topview.View.
func (v *Groups) JSON(count int) any {
	s := v.window.Sum
	j := s.json(v.grouping, s.possible, v.measure.rank(s.possible), v.states(), count)
	j.Seconds, j.PercentOf, j.Unit, j.Possible = s.elapsed.Seconds(), v.measure.whole, v.measure.jsonUnit, s.possible
	j.Lost, j.Throttled, j.Idle = s.losses.records, s.losses.throttled, len(s.idle.threads)
	if last := v.window.Last; last != nil {
		j.Event, j.Frequency, j.CPUs, j.Recorded = last.Event, last.Frequency, last.CPUs, last.Recorded
		j.Problems = v.problems()
	}
	return j
}

// json returns the groups, with shares of a whole.
func (s *groups) json(by Grouping, of float64, rank rank, states map[member]states, count int) GroupsJSON {
	j := GroupsJSON{By: by, Groups: []JSONGroup{}}
	for _, m := range topview.Limit(s.sorted(ByTime, rank), count) {
		g := s.all[m]
		row := JSONGroup{
			Host: m.host, PID: m.pid, TID: m.tid, Name: s.names[m], Container: m.container,
			Samples: g.All, Kernel: g.Kernel, Guest: g.Guest, User: g.user(), Percent: percent(g.All, of),
			States: states[m], Before: len(s.before[m]),
		}
		if delay, ok := s.delays[m]; ok {
			n := delay.Nanoseconds()
			row.Delay = &n
		}
		if by == ByCPU && !m.unknown {
			row.CPU = &m.cpu
		}
		j.Groups = append(j.Groups, row)
	}
	return j
}

// groups are the samples of each group.
type groups struct {
	batch       *live.Batch // for another grouping; nil for several
	all         map[member]*Counts
	names       map[member]string         // of processes and threads, the last ones
	before      map[member]map[int64]bool // threads, by id, that have waited since before the start
	delays      delays
	idle        idle // what was left out
	losses      losses
	noContainer int
	possible    float64 // the whole that shares are relative to
	elapsed     time.Duration
}

func newGroups() *groups {
	return &groups{all: make(map[member]*Counts), names: make(map[member]string), before: make(map[member]map[int64]bool)}
}

// Merge adds other groups, which are later.
func (s *groups) Merge(o *groups) {
	for m, from := range o.all {
		s.counts(m).merge(from)
	}
	maps.Copy(s.names, o.names)
	for m, threads := range o.before {
		for tid := range threads {
			s.noteBefore(m, tid)
		}
	}
	s.delays = s.delays.merge(o.delays)
	s.idle.add(&o.idle)
	s.losses.add(o.losses)
	s.noContainer += o.noContainer
	s.possible, s.elapsed = s.possible+o.possible, s.elapsed+o.elapsed
}

// noteBefore notes that a thread of a group has waited since before the start.
func (s *groups) noteBefore(m member, tid int64) {
	if s.before[m] == nil {
		s.before[m] = make(map[int64]bool)
	}
	s.before[m][tid] = true
}

func (s *groups) counts(m member) *Counts {
	c := s.all[m]
	if c == nil {
		c = NewCounts()
		s.all[m] = c
	}
	return c
}

// of returns the sums of a group.
func (s *groups) of(m member) *sums {
	c := s.all[m]
	if c == nil { // no longer in the window
		c = NewCounts()
	}
	return &sums{counts: c, user: c.user(), possible: s.possible, elapsed: s.elapsed}
}

// user returns the number of samples of user code.
func (c *Counts) user() int64 { return c.All - c.Kernel - c.Guest }

// sum returns the values of all samples.
func (s *groups) sum() (n int64) {
	for _, c := range s.all {
		n += c.All
	}
	return n
}

// known returns the groups that samples name.
func (s *groups) known() []member {
	return slices.DeleteFunc(slices.Collect(maps.Keys(s.all)), func(m member) bool { return m.unknown })
}

// hasHosts reports whether there are samples of several hosts.
func (s *groups) hasHosts() bool {
	hosts := make(map[string]bool)
	for m := range s.all {
		hosts[m.host] = true
	}
	return len(hosts) > 1
}

// sorted returns the groups in descending order of samples.
func (s *groups) sorted(by string, rank rank) []member {
	return slices.SortedFunc(maps.Keys(s.all), func(a, b member) int {
		x, y := s.all[a], s.all[b]
		all, kernel := rank.compare(y.All, x.All), rank.compare(y.Kernel, x.Kernel)
		if by == ByKernel {
			all, kernel = kernel, all
		}
		return cmp.Or(all, kernel, a.compare(b))
	})
}

// countBatch returns the groups of a batch.
func (by Grouping) countBatch(b *live.Batch, names procname.Names, showIdle bool) *groups {
	s := newGroups()
	s.batch, s.delays = b, by.delaysOf(b)
	s.losses, s.noContainer, s.possible, s.elapsed = lossesOf(b), b.NoContainer, possible(b), b.End.Sub(b.Start)
	for sample, codes := range s.idle.countedIn(b, showIdle) {
		t := readTask(sample)
		m := by.memberOf(&t)
		s.addSample(m, &t, by.nameIn(&t), sample, codes)
	}
	for m := range s.all {
		if by == ByProcess && s.names[m] == "" && m.pid != 0 {
			if name := names.Process(uint32(m.pid)).Name; name != "" { // it may have ended
				s.names[m] = name
			}
		}
	}
	return s
}

// addSample adds a sample of a task to its group, which gets a name unless that is empty.
func (s *groups) addSample(m member, t *task, name string, sample *rewrite.NamedSample, codes *codes) {
	if name != "" && !m.unknown {
		s.names[m] = name
	}
	if beganBefore(sample) {
		s.noteBefore(m, t.tid)
	}
	s.counts(m).addSample(sample, codes)
}

// strconvID returns an id as text, or a dash if there is none.
func strconvID(id int64) string {
	if id == 0 {
		return "-"
	}
	return strconv.FormatInt(id, 10)
}
