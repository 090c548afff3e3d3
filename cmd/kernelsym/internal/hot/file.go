// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"text/tabwriter"
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
)

// percent returns a share in percent. It is 0 if the whole is 0.
func percent(part int64, of float64) float64 {
	if of <= 0 {
		return 0
	}
	return 100 * float64(part) / of
}

// NoNames is the message for profiles in which no kernel frame has a name.
const NoNames = "No kernel frame has a name: `kernelsym doctor` says why."

// Print prints the counts of a file, with at most count functions, or all if count is 0.
func (c *Counts) Print(out *printable.Printer, by string, count int) error {
	if c.Kernel == 0 {
		return out.Printf("No kernel frames in %s.\n", c.measure().amount(c.All))
	}
	over := ""
	if elapsed := c.Elapsed().Round(100 * time.Millisecond); elapsed > 0 {
		over = ", over " + elapsed.String()
	}
	m := c.measure()
	err := out.Printf("%s of %s in the kernel%s; %.1f %% of %s have a name\n",
		m.number(c.Kernel), m.amount(c.All), over, percent(c.Named, float64(c.Frames)), m.frames(c.Frames))
	if err != nil {
		return err
	}
	if c.Nameless() {
		out.Printf("%s\n", NoNames)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	rows := printable.New(table, false)
	rows.Printf("\nSELF\tSELF%%\tTOTAL\tTOTAL%%\t  FUNCTION\n")
	for _, fn := range topview.Limit(c.sorted(by), count) {
		f, of := c.functions[fn], float64(c.Kernel)
		rows.Printf("%s\t%.1f%%\t%s\t%.1f%%\t  %s\n", m.number(f.self), percent(f.self, of), m.number(f.total), percent(f.total, of), fn)
	}
	return table.Flush()
}

// measure returns the measure of the values in a file.
func (c *Counts) measure() *Measure {
	if c.kinds.Type() == "off_cpu" { // in nanoseconds
		return WaitTime
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
	Unit      string         `json:"unit,omitempty"` // of samples and functions: nanoseconds of waits; empty for numbers of samples
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

	// Throttled is the number of times that the kernel stopped sampling a CPU for the rest of a
	// tick.
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
	Self         int64   `json:"self"`
	Total        int64   `json:"total"`
	SelfPercent  float64 `json:"self_percent"`
	TotalPercent float64 `json:"total_percent"`
}

// JSON returns the counts of a file, with at most count functions, or all if count is 0.
func (c *Counts) JSON(by string, count int) JSON {
	j := c.json(float64(c.Kernel), by, count)
	j.PercentOf, j.Unit, j.Seconds = "kernel samples", c.measure().jsonUnit, c.Elapsed().Seconds()
	j.Samples.All = &c.All
	return j
}

func (c *Counts) json(of float64, by string, count int) JSON {
	j := JSON{
		Samples:   JSONSamples{Kernel: c.Kernel, Guest: c.Guest},
		Frames:    JSONFrames{All: c.Frames, Named: c.Named},
		Functions: []JSONFunction{},
	}
	for _, fn := range topview.Limit(c.sorted(by), count) {
		f := c.functions[fn]
		j.Functions = append(j.Functions, JSONFunction{
			fn.Name, fn.Module, f.self, f.total, percent(f.self, of), percent(f.total, of),
		})
	}
	return j
}
