// SPDX-License-Identifier: Apache-2.0

package symcache

import (
	"time"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// An Update is published by a source. It has the source's table, the reason why the table is
// incomplete, and the changes since the last update.
type Update struct {
	Table *timeline.Table

	// Degraded says what is missing from the table, and how the operator can fix that; nil if
	// nothing is missing.
	Degraded error

	Changes Changes
}

// Kind is the kind of a change of a source's table.
type Kind uint8

// The kinds of changes.
const (
	KindLoad    Kind = iota // code was loaded: its identity and place, and its symbols if they are known by then
	KindUnload              // code was unloaded
	KindSymbols             // the symbols of code were read, after its identity and place
	NumKinds    = iota
)

// String returns the kind's name in metrics.
func (k Kind) String() string {
	return [NumKinds]string{"load", "unload", "symbols"}[k]
}

// Changes are the changes since the last update. The zero value has none.
type Changes struct {
	Counts Counts

	// since is when the kernel announced the first change of a kind that was noted and not yet applied; zero if
	// that is not known, as for code that a list has shown.
	since [NumKinds]time.Time

	// delays are the times from the announcement of changes until they were applied.
	delays [NumKinds][]time.Duration
}

// Counts are the sums of changes.
type Counts struct {
	Updates     [NumKinds]int64 // images that were loaded, were unloaded, or got symbols
	LostRecords int64           // lost by the kernel; 1 for each loss whose size it does not report
	Resyncs     int64           // how often everything was listed again after a loss
	Mislocated  int64           // how often a list has shown that the kernel was not where it had been located
}

// Note counts n changes of a kind; n is 0 for changes that are counted elsewhere. since is when the kernel announced
// the first of them, zero if that is not known.
func (c *Changes) Note(kind Kind, n int, since time.Time) {
	c.Counts.Updates[kind] += int64(n)
	if !since.IsZero() && (c.since[kind].IsZero() || since.Before(c.since[kind])) {
		c.since[kind] = since
	}
}

// Applied ends the delay of the changes noted so far: a table has them as soon as a message asks for one. It need
// not be called before an update, which ends the delay of the rest.
func (c *Changes) Applied() {
	for kind, since := range c.since {
		if !since.IsZero() {
			c.delays[kind] = append(c.delays[kind], time.Since(since))
		}
	}
	c.since = [NumKinds]time.Time{}
}

// Take returns the changes and resets them.
func (c *Changes) Take() Changes {
	taken := *c
	*c = Changes{}
	return taken
}

func (c *Counts) add(o *Counts) {
	for kind, n := range o.Updates {
		c.Updates[kind] += n
	}
	c.LostRecords += o.LostRecords
	c.Resyncs += o.Resyncs
	c.Mislocated += o.Mislocated
}

// SourceCounts are the counts of one source since the cache was started.
type SourceCounts struct {
	Source string
	Counts Counts
}

// Counts returns the counts of the sources, in the order in which they were given to
// Start. A nil Cache has no sources.
func (c *Cache) Counts() []SourceCounts {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]SourceCounts(nil), c.state.counts...)
}

// WatchDelays calls delayed after each update with changes that the kernel announced: for each kind, with the times
// from the announcement of the first of some changes until the source had applied them. It calls until stop is called,
// one call at a time. delayed must return soon and must not call methods of the cache.
func (c *Cache) WatchDelays(delayed func(source string, kind Kind, delay time.Duration)) (stop func()) {
	return c.add(&watcher{delayed: delayed})
}

// noteChanges counts the changes of source i, and reports their delays.
func (s *state) noteChanges(i int, changes *Changes) {
	s.counts[i].Counts.add(&changes.Counts)
	changes.Applied()
	for kind, delays := range changes.delays {
		for _, delay := range delays {
			for w := range s.watchers {
				if w.delayed != nil {
					w.delayed(s.counts[i].Source, Kind(kind), delay)
				}
			}
		}
	}
}
