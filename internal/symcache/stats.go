package symcache

import (
	"fmt"
	"sync"
	"time"
)

// Kind is what an update of a source's table is about.
type Kind uint8

// The kinds of updates.
const (
	KindLoad    Kind = iota // code was loaded: what it is and where, and its symbols if they come with that
	KindUnload              // code was unloaded
	KindSymbols             // the symbols of code were read, later than what it is and where
	NumKinds    = iota
)

// String returns the kind's name in metrics.
func (k Kind) String() string {
	names := [NumKinds]string{"load", "unload", "symbols"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Stats is what a source counts of its work. The source holds one and calls
// Updated, Lost and Resynced; the cache reads it. Its zero value is ready for
// use, and it is safe for concurrent use.
type Stats struct {
	mu     sync.Mutex
	counts Counts
	oldest [NumKinds]time.Time // of what the next table has; zero if it has nothing of this kind
}

// Counts are the counts of a source since it was made.
type Counts struct {
	Updates     [NumKinds]int64 // how often code was loaded and so on
	LostRecords int64           // of the kernel; where it does not say how many, 1 for each time
	Resyncs     int64           // how often everything was listed again as records were, or may have been, lost
}

// Counting is a source that counts.
type Counting interface {
	Source
	Stats() *Stats
}

// Updated counts n changes of a kind that the next table has which the source
// publishes. since is when the kernel told of the first of them; zero if that is
// not known, as of what was there when the source began, or after records were
// lost.
func (s *Stats) Updated(kind Kind, n int, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Updates[kind] += int64(n)
	if n > 0 && !since.IsZero() && (s.oldest[kind].IsZero() || since.Before(s.oldest[kind])) {
		s.oldest[kind] = since
	}
}

// Lost counts records of the kernel that were lost.
func (s *Stats) Lost(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.LostRecords += int64(n)
}

// Resynced counts that everything is listed again.
func (s *Stats) Resynced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Resyncs++
}

// Counts returns the counts.
func (s *Stats) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// published calls delayed for each kind of change that the table just published
// has, with how long ago the kernel told of the first.
func (s *Stats) published(delayed func(kind Kind, delay time.Duration)) {
	s.mu.Lock()
	oldest := s.oldest
	s.oldest = [NumKinds]time.Time{}
	s.mu.Unlock()
	for kind, since := range oldest {
		if !since.IsZero() {
			delayed(Kind(kind), time.Since(since))
		}
	}
}

// SourceCounts are the counts of one source.
type SourceCounts struct {
	Source string
	Counts
}

// Counts returns the counts of the sources that count, in the order in which they
// were given to Start. A nil Cache has no sources.
func (c *Cache) Counts() (all []SourceCounts) {
	if c == nil {
		return nil
	}
	for _, s := range c.sources {
		if s, ok := s.(Counting); ok {
			all = append(all, SourceCounts{Source: s.Name(), Counts: s.Stats().Counts()})
		}
	}
	return all
}

// WatchDelays calls delayed after each table with changes that the kernel told
// of, once for each kind of them: with the time from when it told of the first
// until the table was in the snapshot. It calls until stop is called, one call at
// a time. delayed must return soon and must not call methods of the cache.
func (c *Cache) WatchDelays(delayed func(source string, kind Kind, delay time.Duration)) (stop func()) {
	return c.add(&watcher{delayed: delayed})
}
