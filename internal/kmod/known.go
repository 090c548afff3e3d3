package kmod

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// known is what is known of the loaded modules.
type known struct {
	source  *Source
	modules []*module
	begun   bool   // everything was published since begin
	shown   bool   // the kernel shows addresses
	tornSum uint64 // of the last list of symbols that looked torn
	again   time.Duration
	since   time.Time // when an event told of what is not known yet; zero if none did
	past    past
	when    when
}

// module is one load of a module.
type module struct {
	identity
	info    symtab.ModuleInfo // its end is where something else is known to begin
	noCode  bool
	highest uint64         // address of the highest section of code
	starts  []uint64       // addresses of all sections
	whole   *symtab.Module // with its symbols, up to info.End; nil if they were not read
	err     error          // what is missing from it

	published *symtab.Module // as it was published last, nil if it was not
}

// While something is pending, the time until the next look doubles from the first
// to the last of these: a module can take long to go, and where modules come and
// go all the time, reading symbols must not take all of a CPU.
const (
	minAgain = 20 * time.Millisecond
	maxAgain = time.Second
)

func newKnown(s *Source) *known {
	return &known{source: s, past: past{history: s.history}}
}

// begin begins anew to publish, and to learn by hear what events told. What is known
// stays.
func (k *known) begin(hear func() news) {
	k.begun, k.again, k.since = false, 0, time.Time{}
	k.when.hear, k.when.events = hear, nil
}

// told takes over what events told that refresh is to deal with.
func (k *known) told(n news) {
	if k.since.IsZero() {
		k.since = n.since
	}
	k.when.told(n)
}

// refresh brings what is known up to date, and calls changed after each step that
// changed it. The first time it calls it once, with everything, in any case. It
// returns the time after which to look again, as something is pending; 0 if
// nothing is.
func (k *known) refresh(ctx context.Context, changed func()) (again time.Duration, err error) {
	k.told(k.when.begin())
	list, err := k.list()
	if err != nil {
		return 0, err
	}
	late := k.when.news() // of what may not be in the list
	k.told(late)
	different, first := k.update(list), !k.begun
	k.when.tookOver(list, late.missed)
	different = k.past.expire(now()) || different
	complete := true
	switch missing := k.missing(); {
	case len(missing) > 0 || k.maybeHidden():
		if different && !first && !k.maybeHidden() {
			changed() // what they are, and where
		}
		if complete, err = k.readSymbols(list, missing); err != nil || ctx.Err() != nil {
			return 0, err
		}
		if complete {
			changed()
		}
	case different || first:
		changed()
	}
	if complete {
		k.since, k.begun = late.since, true // what was told late may not be known yet
	}
	if complete && !slices.ContainsFunc(list, func(id identity) bool { return !id.live }) {
		k.again = 0
		return k.past.next(now()), nil
	}
	k.again = min(max(2*k.again, minAgain), maxAgain)
	return k.again, nil
}

// list returns the modules in the kernel's list. One in which the kernel hides all
// addresses tells nothing of what came and went: it gives kallsyms.ErrRestricted.
func (k *known) list() ([]identity, error) {
	list, err := k.source.list()
	hasAddr := func(id identity) bool { return id.addr != 0 }
	onlyData := k.shown && !slices.ContainsFunc(k.modules, func(m *module) bool { return hasAddr(m.identity) })
	if err != nil || len(list) == 0 || onlyData || slices.ContainsFunc(list, hasAddr) {
		return list, err
	}
	f, err := os.Open(filepath.Join(k.source.procfs, "kallsyms"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := newParser(nil, nil).parse(f); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return k.source.list() // in case they are hidden no more
}

// readSymbols reads the symbols of modules, of which the list is given. It reports
// false, and takes nothing over, if modules came or went meanwhile.
func (k *known) readSymbols(list []identity, missing []*module) (complete bool, err error) {
	f, err := os.Open(filepath.Join(k.source.procfs, "kallsyms"))
	if err != nil {
		return false, err
	}
	defer f.Close()
	p := newParser(list, missing)
	if err := p.parse(f); err != nil {
		return false, fmt.Errorf("%s: %w", f.Name(), err)
	}
	after, err := k.source.list()
	if err != nil || !slices.EqualFunc(list, after, identity.same) {
		return false, err
	}
	if p.torn && p.sum != k.tornSum {
		k.tornSum = p.sum
		return false, nil
	}
	k.shown = true
	p.assign()
	k.source.stats.Updated(symcache.KindSymbols, len(p.wanted), k.since)
	return true, nil
}

// update takes over the list, and reports whether it was different.
func (k *known) update(list []identity) (different bool) {
	var modules []*module
	loaded := 0
	for _, id := range list {
		if !id.live {
			continue
		}
		i := slices.IndexFunc(k.modules, func(m *module) bool { return m.same(id) })
		if i >= 0 {
			modules = append(modules, k.modules[i])
			continue
		}
		modules = append(modules, k.source.describe(id))
		loaded++
	}
	k.date(modules)
	if different = !slices.Equal(modules, k.modules); different {
		k.shown = false // that can change at any time, and then all of them are others
	}
	k.source.stats.Updated(symcache.KindLoad, loaded, k.since)
	k.source.stats.Updated(symcache.KindUnload, len(k.modules)+loaded-len(modules), k.since)
	k.modules = modules
	return different
}

// missing returns the modules whose symbols were not read yet.
func (k *known) missing() (modules []*module) {
	for _, m := range k.modules {
		if m.whole == nil && !m.noCode {
			modules = append(modules, m)
		}
	}
	return modules
}

// maybeHidden reports whether no module shows its address: then the kernel hides
// them, or all have only data.
func (k *known) maybeHidden() bool {
	return !k.shown && len(k.modules) > 0 && !slices.ContainsFunc(k.modules, func(m *module) bool { return m.addr != 0 })
}

// degraded says what is missing.
func (k *known) degraded() error {
	for _, m := range k.modules {
		if m.err != nil {
			return m.err
		}
	}
	return nil
}

// table returns what is known.
func (k *known) table() *symtab.Table {
	var starts []uint64
	for _, m := range k.modules {
		starts = append(starts, m.starts...)
	}
	slices.Sort(starts)
	var all []*symtab.Module
	for _, m := range k.modules {
		if m.noCode {
			continue
		}
		end := m.info.End
		if i, _ := slices.BinarySearch(starts, m.highest+1); i < len(starts) {
			end = min(end, starts[i])
		}
		if end < m.info.End {
			// For good: where something else is, or was, this module has no code.
			m.info.End = end
			if m.whole != nil {
				m.whole = m.whole.Clipped(end)
			}
		}
		module := m.whole
		if module == nil {
			module = withoutSymbols(m.info)
		}
		if m.published = module; module != nil {
			all = append(all, module)
		}
	}
	return symtab.NewTableWith(append(all, k.past.modules...), k.past.forgotten)
}
