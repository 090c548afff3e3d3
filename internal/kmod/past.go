package kmod

import (
	"math"
	"time"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// past is what is known of modules that were unloaded.
type past struct {
	history   symtab.History
	modules   []*symtab.Module // first the one that went first
	forgotten symtab.Forgotten
}

// add adds a module that is gone.
func (p *past) add(m *symtab.Module) {
	if p.history.MaxEntries == 0 || p.history.TTL == 0 {
		p.forgotten.Add(m.Start, m.End, m.Valid, m.Slack)
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
		p.forgotten.Add(m.Start, m.End, m.Valid, m.Slack)
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
