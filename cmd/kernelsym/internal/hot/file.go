// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/profilefile"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
	"github.com/kernelsym/kernelsym/internal/rewrite"
)

// percent returns a share in percent. It is 0 if the whole is 0.
func percent(part int64, of float64) float64 {
	if of <= 0 {
		return 0
	}
	return 100 * float64(part) / of
}

// The messages for profiles in which no kernel frame has a name: of this machine, and in files, which can be of
// another.
const (
	noNames       = "No kernel frame has a name: `kernelsym doctor` says why."
	NoNamesInFile = "No kernel frame has a name. Has the profile passed the processor kernelsym? If so, run `kernelsym doctor` " +
		"on the machine where it was taken."
)

// A File counts the samples in profile files: by function, and by what they are grouped by.
type File struct {
	by     Grouping // empty for functions alone
	counts *Counts
	groups *groups
	kinds  profilefile.Kinds
	span   span
}

// span is a time, in nanoseconds since the Unix epoch.
type span struct{ start, end int64 }

func (s *span) add(o span) {
	if s.start == 0 || o.start < s.start {
		s.start = o.start
	}
	s.end = max(s.end, o.end)
}

// NewFile returns empty counts of the profiles whose values are of a type; see [profilefile.NewKinds].
func NewFile(by Grouping, kind string) *File {
	return &File{by: by, counts: NewCounts(), groups: newGroups(), kinds: profilefile.NewKinds(kind)}
}

// Add adds the samples of a message.
func (f *File) Add(n *rewrite.Named) {
	codes := newCodes(n)
	for p := range n.Profiles() {
		if f.kinds.Skips(p) {
			continue
		}
		if start, end, ok := p.Span(); ok {
			f.span.add(span{start, end})
		}
		for s := range p.Samples() {
			if profilefile.IsWaits(p.Type()) {
				s.Frames = profilefile.AtWait(n, s.Frames)
			}
			f.counts.addSample(s, codes)
			if f.by != "" {
				t := readTask(s)
				f.groups.addSample(f.by.memberInFile(s, &t), &t, f.by.nameIn(&t), s, codes)
			}
		}
	}
}

// Kinds says which profiles were left out.
func (f *File) Kinds() *profilefile.Kinds { return &f.kinds }

// elapsed returns the time from the start of the first profile to the end of the last.
func (f *File) elapsed() time.Duration { return time.Duration(f.span.end - f.span.start) }

// over returns that time as the end of a phrase, empty if it is not known.
func (f *File) over() string {
	if elapsed := f.elapsed().Round(100 * time.Millisecond); elapsed > 0 {
		return ", over " + elapsed.String()
	}
	return ""
}

// Print prints the table, with at most count rows, or all if count is 0. by is the order of functions.
func (f *File) Print(out *printable.Printer, by string, count int) error {
	if f.by != "" {
		return f.printGroups(out, count)
	}
	c, m := f.counts, f.measure()
	if c.Kernel == 0 {
		return out.Printf("No kernel frames in %s.\n", m.amount(c.All))
	}
	err := out.Printf("%s of %s in the kernel%s; %.1f %% of %s have a name\n",
		m.number(c.Kernel), m.amount(c.All), f.over(), percent(c.Named, float64(c.Frames)), m.frames(c.Frames))
	if err != nil {
		return err
	}
	if c.Nameless() {
		out.Printf("%s\n", NoNamesInFile)
	}
	rows := [][]string{{"SELF", "SELF%", "TOTAL", "TOTAL%", "  FUNCTION"}}
	for _, fn := range topview.Limit(c.sorted(by, 0), count) {
		is, of := c.functions[fn], float64(c.Kernel)
		rows = append(rows, []string{m.number(is.self), inPercent(is.self, of), m.number(is.total), inPercent(is.total, of), "  " + fn.String()})
	}
	return printTable(out, rows)
}

// printGroups prints the table of groups. Shares are relative to all samples.
func (f *File) printGroups(out *printable.Printer, count int) error {
	g, m, known := f.groups, f.measure(), f.groups.known()
	if err := out.Printf("%s of %s%s\n", m.amount(g.sum()), f.by.count(len(known)), f.over()); err != nil {
		return err
	}
	for _, problem := range f.problems() {
		out.Printf("%s\n", problem)
	}
	head := []string{"TOTAL", "TOTAL%", "KERNEL", "KERNEL%"}
	hosts := g.hasHosts()
	if hosts {
		head = append(head, "HOST")
	}
	head = append(head, f.by.ids()...)
	rows := [][]string{append(head, "  "+strings.ToUpper(string(f.by)))}
	for _, member := range topview.Limit(g.sorted(ByTime, 0), count) {
		is, of := g.all[member], float64(g.sum())
		cells := []string{m.number(is.All), inPercent(is.All, of), m.number(is.Kernel), inPercent(is.Kernel, of)}
		if hosts {
			cells = append(cells, cmp.Or(member.host, "-"))
		}
		cells = append(cells, f.by.idsOf(member)...)
		rows = append(rows, append(cells, "  "+f.by.nameOf(member, g.names)))
	}
	return printTable(out, rows)
}

// problems describes what the file does not say.
func (f *File) problems() []string {
	if len(f.groups.all) == 0 || len(f.groups.known()) > 0 {
		return nil
	}
	return []string{fmt.Sprintf("No sample has the attribute %s.", f.by.key())}
}

func inPercent(part int64, of float64) string { return fmt.Sprintf("%.1f%%", percent(part, of)) }

// printTable prints a table, whose last column is text.
func printTable(out *printable.Printer, rows [][]string) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	lines := printable.New(table, false)
	lines.Printf("\n")
	for _, cells := range rows {
		for _, cell := range cells[:len(cells)-1] {
			lines.Printf("%s\t", cell)
		}
		lines.Printf("%s\n", cells[len(cells)-1])
	}
	return table.Flush()
}

// measure returns the measure of the values.
func (f *File) measure() *Measure {
	switch t := f.kinds.Type(); {
	case profilefile.IsWaits(t):
		return WaitTime
	case t.Unit != "count" && t.Unit != "":
		return measureOf(t)
	}
	return CPUTime
}

// JSON is the output for other programs.
type JSON struct {
	topview.Sampling
	Seconds   float64        `json:"seconds"`
	Samples   JSONSamples    `json:"samples"`
	Frames    JSONFrames     `json:"kernel_frames"`
	PercentOf string         `json:"percent_of"`
	Unit      string         `json:"unit,omitempty"`                // of samples and functions: nanoseconds of waits; empty for numbers of samples
	Idle      int            `json:"idle_kernel_threads,omitempty"` // that were left out
	Problems  []string       `json:"problems,omitempty"`
	Functions []JSONFunction `json:"functions"`
}

// JSONSamples are numbers of samples. For a file, the numbers that only sampling provides are
// missing.
type JSONSamples struct {
	Kernel   int64   `json:"kernel"`
	Guest    int64   `json:"guest,omitempty"` // in guests of KVM; not part of Kernel
	User     *int64  `json:"user,omitempty"`
	Lost     *uint64 `json:"lost,omitempty"`
	All      *int64  `json:"all,omitempty"`
	Possible float64 `json:"possible,omitempty"` // if no CPU had been idle

	// Throttled is the number of times that the kernel stopped sampling a CPU until its next tick.
	Throttled int `json:"throttled,omitempty"`
}

// JSONFrames are numbers of kernel frames, counted once for each sample.
type JSONFrames struct {
	All   int64 `json:"all"`
	Named int64 `json:"named"`
}

// JSONFunction is one row.
type JSONFunction struct {
	Function     string  `json:"function"`
	Module       string  `json:"module,omitempty"`
	Before       bool    `json:"since_before,omitempty"` // the waits that began before the start
	Self         int64   `json:"self"`
	Total        int64   `json:"total"`
	SelfPercent  float64 `json:"self_percent"`
	TotalPercent float64 `json:"total_percent"`
}

// JSON returns the table for other programs, as Print prints it.
func (f *File) JSON(by string, count int) any {
	m := f.measure()
	if f.by != "" {
		j := f.groups.json(f.by, float64(f.groups.sum()), 0, nil, count)
		j.PercentOf, j.Unit, j.Seconds = "all samples", m.jsonUnit, f.elapsed().Seconds()
		j.Problems = f.problems()
		return j
	}
	j := f.counts.json(float64(f.counts.Kernel), by, count)
	j.PercentOf, j.Unit, j.Seconds = "kernel samples", m.jsonUnit, f.elapsed().Seconds()
	j.Samples.All = &f.counts.All
	return j
}

func (c *Counts) json(of float64, by string, count int) JSON {
	j := JSON{
		Samples:   JSONSamples{Kernel: c.Kernel, Guest: c.Guest},
		Frames:    JSONFrames{All: c.Frames, Named: c.Named},
		Functions: []JSONFunction{},
	}
	for _, fn := range topview.Limit(c.sorted(by, 0), count) {
		f := c.functions[fn]
		j.Functions = append(j.Functions, JSONFunction{
			fn.Name, fn.Module, fn.Before, f.self, f.total, percent(f.self, of), percent(f.total, of),
		})
	}
	return j
}
