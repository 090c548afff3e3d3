// SPDX-License-Identifier: Apache-2.0

package perfring

// A Batch is the content of the rings at the time they were emptied. The next one overwrites its records.
type Batch struct {
	// At is a reading of the clock from before the rings were emptied.
	At int64

	// Records are what Options.Event recorded, sorted by time.
	Records []Record

	// Blind are the intervals in which events may have happened without a record (see contract
	// 5.2). They apply to all records: it is not known on which CPU an event would have
	// occurred.
	Blind []Interval

	// Lost is the number of these records that the kernel has announced as lost because it had no
	// room for them, plus the number of records that could not be parsed. For a ring that is
	// closed, and with Flush, it includes losses that were not announced. Before Linux 6.0
	// their number is not known: if there may be any, they count as 1.
	Lost uint64

	// Names are the records of Options.Names up to the same time as Records.
	Names NameBatch

	// Certain is the instant before which no event is missing, except in blind intervals, once
	// this batch and all earlier ones are applied. A CPU that came online is noticed only by
	// RefreshCPUs: the blind interval that this causes can begin before an earlier Certain.
	// MissesCPU reports whether there may be such a CPU.
	Certain int64

	// Looked is an instant before the rings were last compared with the CPUs that are online. A blind interval in a later
	// batch can begin before Certain, but not before Looked.
	Looked int64
}

// A NameBatch is the part of a [Batch] about threads and cgroups. A change of a name that another event follows is in the
// same batch as that event, or in an earlier one.
type NameBatch struct {
	Records []Record   // sorted by time
	Blind   []Interval // as in Batch, for these records; sorted by their beginnings
	Lost    uint64     // as in Batch; also the records that were not parsed because there were too many
}

// An Interval is the time from From up to, but not including, To, in nanoseconds of the
// event's clock.
type Interval struct {
	From, To int64

	// Lost says of a blind interval that a ring may have had no room for records. In others, a CPU had no ring, or recording
	// was paused.
	Lost bool
}
