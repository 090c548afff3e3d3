// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/profilefile"
	"github.com/kernelsym/kernelsym/internal/rewrite"
)

// A Measure formats the values of samples, and shares of them.
type Measure struct {
	whole    string                                 // what shares are relative to
	legend   string                                 // explains the columns of shares
	unit     string                                 // heads a column of values
	jsonUnit string                                 // of values for other programs; empty for numbers of samples
	number   func(n int64) string                   // values, in such a column
	amount   func(n int64) string                   // values, in a sentence
	frames   func(n int64) string                   // values of frames, in a sentence
	share    func(part int64, whole float64) string // values, divided by the whole
	digit    float64                                // the last digit of share, as a part of the whole; 0 if there is no share
}

// A rank is the value by which rows are ranked: those whose values differ by less tie, and keep their order. 0 ranks by the
// exact values.
type rank float64

// rank returns the rank for which rows tie if their shares look the same.
func (m *Measure) rank(whole float64) rank { return rank(m.digit * whole) }

func (r rank) compare(a, b int64) int {
	if r <= 0 {
		return cmp.Compare(a, b)
	}
	return cmp.Compare(math.Round(float64(a)/float64(r)), math.Round(float64(b)/float64(r)))
}

// CPUTime measures samples taken at equal intervals. Shares are relative to the time of all sampled CPUs, idle or not.
var CPUTime = &Measure{
	whole:  "all CPU time",
	legend: "Percent of all CPU time.",
	unit:   "SAMPLES",
	number: func(n int64) string { return strconv.FormatInt(n, 10) },
	amount: func(n int64) string { return plural.Of(int(n), "sample") },
	frames: func(n int64) string { return plural.Of(int(n), "kernel frame") },
	share:  format,
	digit:  1e-4,
}

// WaitTime measures waits, in nanoseconds.
var WaitTime = &Measure{
	whole:    "the time of one thread",
	legend:   "Threads on average: 1.00 is one thread that waits all the time.",
	unit:     "TIME",
	jsonUnit: "nanoseconds",
	number:   func(n int64) string { return time.Duration(n).Round(time.Microsecond).String() },
	amount:   func(n int64) string { return time.Duration(n).Round(time.Millisecond).String() + " of waits" },
	frames:   func(int64) string { return "the time of kernel frames" },
	share:    func(part int64, whole float64) string { return fmt.Sprintf("%.2f", percent(part, whole)/100) },
	digit:    1e-2,
}

// measureOf measures values of a type in a file that are no numbers, such as CPU time.
func measureOf(t rewrite.ValueType) *Measure {
	amount := func(n int64) string { return profilefile.Amount(t, n) }
	return &Measure{
		jsonUnit: t.Unit, number: amount, amount: func(n int64) string { return amount(n) + " of " + cmp.Or(t.Name, "samples") },
		frames: func(int64) string { return "the " + cmp.Or(t.Name, "values") + " of kernel frames" },
	}
}

// possible returns the whole of a batch: the number of samples if no CPU had been idle, or the time of one thread.
func possible(b *live.Batch) float64 {
	if b.OffCPU {
		return float64(b.End.Sub(b.Start).Nanoseconds())
	}
	return b.Possible()
}
