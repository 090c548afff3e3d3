// SPDX-License-Identifier: Apache-2.0

package perfring

// A Batch is what the rings held when they were emptied.
type Batch struct {
	// At is what the clock showed before the rings were emptied.
	At int64

	// Records are in the order of their times.
	Records []Record

	// Blind are the intervals in which events may have happened without a record
	// (see contract 5.2). They are about all of what is recorded: which
	// CPU an event would have been on is not known.
	Blind []Interval

	// Lost is the number of records that the kernel had no room for, as far as it
	// has announced them, and of those that could not be parsed. Of a ring that is closed, and
	// with Flush, it has also those that were not announced. Before Linux 6.0 it is not known
	// how many these are: if there may be any, they count as 1.
	Lost uint64

	// Certain is the instant before which no event is missing, other than in blind
	// intervals, once this batch and all earlier ones are applied. That a CPU came
	// online is known only after RefreshCPUs: the interval that is blind then can begin
	// before what was certain.
	Certain int64
}

// An Interval is the time from From up to, but not including, To, in nanoseconds of the
// event's clock.
type Interval struct {
	From, To int64
}
