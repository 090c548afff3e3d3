package symtab

import "math"

// An Interval is the span of time from From up to, but not including, To, both
// in nanoseconds since the Unix epoch. An interval whose To is not after its
// From is empty: it overlaps nothing.
type Interval struct {
	From, To int64
}

// Always is the interval that holds every instant.
var Always = Interval{From: math.MinInt64, To: math.MaxInt64}

// Overlaps reports whether the two intervals have an instant in common.
func (i Interval) Overlaps(o Interval) bool {
	return max(i.From, o.From) < min(i.To, o.To)
}
