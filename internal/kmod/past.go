package kmod

import (
	"math"
	"time"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// past is what is known of modules that were unloaded.
type past struct {
	history   symtab.History
	modules   []*symtab.Module // first the one that went first
	forgotten symtab.Forgotten
}

// now reads the clock of lifetimes.
func now() int64 { return perfring.Boottime.Now() }

// add adds a module that is gone.
func (p *past) add(m *symtab.Module) {
	if p.history.MaxEntries == 0 || p.history.TTL == 0 {
		p.forgotten.Add(m.Start, m.End, m.Valid.To)
		return
	}
	p.modules = append(p.modules, m)
}

// expire forgets what was unloaded too long ago, and the first of those that are too
// many, and reports whether there were any.
func (p *past) expire(now int64) bool {
	n := max(0, len(p.modules)-p.history.MaxEntries)
	for n < len(p.modules) && p.goes(n) <= now {
		n++
	}
	for _, m := range p.modules[:n] {
		p.forgotten.Add(m.Start, m.End, m.Valid.To)
	}
	p.modules = append([]*symtab.Module(nil), p.modules[n:]...)
	return n > 0
}

// goes returns when module n is to be forgotten.
func (p *past) goes(n int) int64 {
	m := p.modules[n]
	return m.Valid.To + int64(m.Slack.After)*1000 + int64(p.history.TTL)
}

// next returns the time until something is to be forgotten, 0 if nothing is.
func (p *past) next(now int64) time.Duration {
	if len(p.modules) == 0 {
		return 0
	}
	const often = time.Second // enough
	return max(time.Duration(p.goes(0)-now), often)
}

// freeSince returns when the last of the modules went that were at addresses in
// [start, end), math.MinInt64 if none is known.
func (p *past) freeSince(start, end uint64) int64 {
	since := int64(math.MinInt64)
	for _, m := range p.modules {
		if m.Start < end && start < m.End {
			since = max(since, m.Valid.To)
		}
	}
	return since
}

// heard is when events told of a module.
type heard struct {
	added   int64 // the last time; 0 if none did
	removed int64 // the first time
}

// begin says since when a module is there that was not in the list before. It was
// initialized before an event told of it, and its code ran before that.
func (k *known) begin(m *module) {
	if !k.begun && k.looked == 0 {
		m.info.Valid = symtab.Always // for all that is known
		return
	}
	from := now()
	if t, ok := k.events[m.name]; ok && t.added > k.looked {
		from = min(from, t.added)
	}
	earliest := max(k.looked, k.past.freeSince(m.info.Start, m.info.End))
	m.info.Valid = symtab.Since(from)
	m.info.Slack = symtab.NewSlack(time.Duration(from-earliest), 0)
}

// end puts a module that is not in the list any more into the history. It was there
// when the list was last read, and until an event told that it was about to go.
func (k *known) end(m *module) {
	was := m.published
	if was == nil {
		return // it had no code
	}
	until := max(k.looked, m.info.Valid.From)
	if t, ok := k.events[m.name]; ok && t.removed > until {
		until = t.removed
	}
	slack := symtab.NewSlack(0, time.Duration(now()-until))
	slack.Before = m.info.Slack.Before
	k.past.add(was.Lived(symtab.Interval{From: m.info.Valid.From, To: until}, slack))
}
