// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"errors"
	"slices"
	"time"

	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A reader makes the scans of one run, and remembers what the next scan needs.
type reader struct {
	source *Source
	ends   endRule

	// unconfirmed is the sum of the last symbol list that counts only if the next one has the same sum.
	unconfirmed uint64
}

func newReader(s *Source) *reader { return &reader{source: s, ends: s.roots.endRule()} }

// scan reads the list, whatever is new in it, and with withSymbols, the symbols of the new modules. It
// reports whether that is complete; if not, the caller must scan again.
func (r *reader) scan(publish func(symcache.Update), withSymbols bool) (complete bool, err error) {
	scan := r.beginScan()
	list, err := r.source.roots.readList()
	if err != nil {
		return false, err
	}
	loads := r.readLoads(scan, list)
	withoutSymbols, ok := r.applyScan(scan, list, loads)
	if !ok || len(withoutSymbols) > 0 && !withSymbols {
		return false, nil
	}
	var images map[*load]*timeline.Image
	if len(withoutSymbols) > 0 {
		var unchanged bool
		if images, unchanged, err = r.readSymbols(scan, list, withoutSymbols); err != nil || !unchanged {
			return false, err
		}
	}
	s := r.source
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drain()
	if len(images) > 0 && len(s.state.tracker.removed) > 0 {
		return false, nil // lines may be missing; the module may be loaded again, at the same address
	}
	s.state.tracker.applySymbols(images)
	s.state.publish = publish
	s.state.publishTable()
	return true, nil
}

// beginScan applies the events that have arrived, and begins a scan.
func (r *reader) beginScan() scan {
	s := r.source
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.scanRequests: // this scan answers it
	default:
	}
	st := &s.state
	st.feed.scannedAt = time.Now()
	st.feed.drain(st.tracker)
	return st.tracker.beginScan(now(), st.feed.conn == nil)
}

// readLoads returns the loads of the modules that are live. A load that was known before the scan
// stays the same load, unless something is missing from it: then readLoads tries again, because sysfs
// may have been mounted since. If one of these attempts changes nothing, readLoads makes no more of
// them in this scan, because each costs a reading of the list.
func (r *reader) readLoads(scan scan, list []listEntry) (loads []*load) {
	retry := true
	for _, entry := range list {
		if !entry.live {
			continue
		}
		l := scan.known[entry.name]
		isKnown := l != nil && l.addr == entry.addr && (!scan.blind || r.isSameLoad(scan, l, entry))
		switch {
		case !isKnown:
			l = r.source.roots.readLoad(entry, r.ends)
		case l.err != nil && retry:
			if again := r.source.roots.readLoad(entry, r.ends); again != nil && again.err == nil {
				l = again // counts as another load, because its frames are written differently
			} else {
				retry = false
			}
		}
		if l != nil {
			loads = append(loads, l)
		}
	}
	return loads
}

// isSameLoad reports whether, after a blind interval, a list shows a load that was known before it.
func (r *reader) isSameLoad(scan scan, l *load, entry listEntry) bool {
	if !l.hasCode() {
		return true // nothing depends on it
	}
	id, err := r.source.roots.readBuildID(entry.name)
	return err == nil && (l.matches(entry, id) || scan.polled && l.buildID == "" && id == "")
}

// applyScan applies the list and the loads in it, and returns the loads whose symbols must be read. ok
// is false if events were lost since the scan began.
func (r *reader) applyScan(scan scan, list []listEntry, loads []*load) (withoutSymbols []*load, ok bool) {
	shown := make(map[string]bool, len(list))
	for _, entry := range list {
		shown[entry.name] = !entry.init
	}
	until := now()
	s := r.source
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &s.state
	st.feed.drain(st.tracker)
	if ok = st.tracker.applyScan(scan, shown, loads, until); !ok {
		return nil, false
	}
	withoutSymbols = st.tracker.withoutSymbols()
	if len(withoutSymbols) > 0 && st.tracker.changed {
		st.publishTable() // their builds and addresses
	}
	if st.tracker.needsList() {
		s.requestScan() // a module was loaded after the list was read
	}
	return withoutSymbols, true
}

// readSymbols reads the symbols of loads that a list has shown. unchanged reports whether it is certain
// that no module was loaded or unloaded since that list. When an event shows that one was loaded,
// readSymbols stops: the list is needed first, and the symbols must be read again anyway.
func (r *reader) readSymbols(
	scan scan, list []listEntry, loads []*load,
) (images map[*load]*timeline.Image, unchanged bool, err error) {
	roots := &r.source.roots
	p := newParser(list, loads)
	switch err := roots.readKallsyms(p, r.source.needsList); {
	case errors.Is(err, errStopped):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	after, err := roots.readList()
	if err != nil {
		return nil, false, err
	}
	unchanged = slices.Equal(list, after)
	for _, l := range loads {
		if !unchanged || !scan.polled {
			break
		}
		id, err := roots.readBuildID(l.name)
		unchanged = err == nil && id == l.buildID // otherwise it is another load
	}
	// If no event would announce that a module was unloaded, or that it failed to start, two readings
	// must agree.
	unannounced := scan.polled || slices.ContainsFunc(list, func(e listEntry) bool { return !e.live })
	if (p.inconsistent || unannounced) && p.sum != r.unconfirmed {
		r.unconfirmed, unchanged = p.sum, false
	}
	return p.images, unchanged, nil
}
