package symtab

// Forgotten is what is known of code that was unloaded and is not in the history any
// more: where it lay, and when the last of it went. Its zero value is that of none.
type Forgotten struct {
	low, high uint64
	until     int64
}

// Add adds code at addresses in [start, end) that was there for some time, which is not
// known better than the slack says.
func (f *Forgotten) Add(start, end uint64, valid Interval, slack Slack) {
	until := slack.possible(valid).To
	if f.high == 0 {
		*f = Forgotten{low: start, high: end, until: until}
		return
	}
	f.low, f.high = min(f.low, start), max(f.high, end)
	f.until = max(f.until, until)
}

// mayHold reports whether it may have had an address.
func (f *Forgotten) mayHold(addr uint64) bool { return f.low <= addr && addr < f.high }

// mayHoldAt reports whether it may have had an address in an interval.
func (f *Forgotten) mayHoldAt(addr uint64, at Interval) bool {
	return f.mayHold(addr) && at.From < f.until
}
