// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"slices"
	"time"

	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// scan is reading the list, and what is new in it. It begins with what was known.
type scan struct {
	from   int64 // when it began: the list was read later
	polled bool  // no events are read
	blind  bool  // known loads count only if their build shows that they are the same
	losses int
	known  map[string]*load
}

// reader is what one run has to remember between scans.
type reader struct {
	*Source
	ends    endRule
	tornSum uint64 // of the last list of symbols that may have been torn
}

func newReader(s *Source) *reader { return &reader{Source: s, ends: s.endRule()} }

// scan reads the list, what is new in it, and the symbols of that. It reports whether
// nothing is missing then.
func (s *reader) scan(publish func(symcache.Update)) (whole bool, err error) {
	k := s.begin()
	list, err := s.list()
	if err != nil {
		return false, err
	}
	loads := s.find(k, list)
	unnamed, ok := s.apply(k, list, loads)
	if !ok {
		return false, nil
	}
	var symbols map[*load]*timeline.Image
	if len(unnamed) > 0 {
		var same bool
		if symbols, same, err = s.readSymbols(k, list, unnamed); err != nil || !same {
			return false, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drain()
	if len(symbols) > 0 && len(s.record.removed) > 0 {
		return false, nil // lines may be missing; the module can be back, at the same address
	}
	s.record.name(symbols)
	s.publish = publish
	s.flush()
	return true, nil
}

// begin begins a scan with the events that have come until then.
func (s *reader) begin() scan {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.wanted: // this scan
	default:
	}
	s.feed.scanned = time.Now()
	s.feed.drain(s.record)
	return s.record.begin(now(), s.feed.conn == nil)
}

// find returns the loads of the modules that are live: of those that were known, what is
// known of them. If something is missing from that, it is tried again, as sysfs may have been
// mounted since; after one that is still the same, no others, as each try costs a reading of the list.
func (s *reader) find(k scan, list []listed) (loads []*load) {
	retry := true
	for _, is := range list {
		if !is.live {
			continue
		}
		l := k.known[is.name]
		isKnown := l != nil && l.addr == is.addr && (!k.blind || s.isSame(k, l, is))
		switch {
		case !isKnown:
			l = s.describe(is, s.ends)
		case l.err != nil && retry:
			if again := s.describe(is, s.ends); again != nil && again.err == nil {
				l = again // another load, as its frames are written in another way
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

// isSame reports whether a load is the one that a list shows after a blind interval.
func (s *reader) isSame(k scan, l *load, is listed) bool {
	if !l.hasCode() {
		return true // nothing depends on it
	}
	id, err := s.readBuildID(is.name)
	return err == nil && (l.is(is, id) || k.polled && l.buildID == "" && id == "")
}

// apply ends the reading of the list, and returns the loads without symbols.
func (s *reader) apply(k scan, list []listed, loads []*load) (unnamed []*load, ok bool) {
	shown := make(map[string]bool, len(list))
	for _, is := range list {
		shown[is.name] = true
	}
	until := now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feed.drain(s.record)
	if ok = s.record.apply(k, shown, loads, until); !ok {
		return nil, false
	}
	unnamed = s.record.unnamed()
	if len(unnamed) > 0 && s.record.changed {
		s.flush() // what they are, and where
	}
	return unnamed, true
}

// readSymbols reads the symbols of loads, given the list that showed them, and reports
// whether no module came or went meanwhile.
func (s *reader) readSymbols(
	k scan, list []listed, loads []*load,
) (symbols map[*load]*timeline.Image, same bool, err error) {
	p := newParser(list, loads)
	if err := s.parse(p); err != nil {
		return nil, false, err
	}
	after, err := s.list()
	if err != nil {
		return nil, false, err
	}
	same = slices.Equal(list, after)
	for _, l := range loads {
		if !same || !k.polled {
			break
		}
		id, err := s.readBuildID(l.name)
		same = err == nil && id == l.buildID // else it is another load
	}
	// Where no event would tell that a module went, or that it failed to start, two readings must agree.
	unseen := k.polled || slices.ContainsFunc(list, func(is listed) bool { return !is.live })
	if (p.torn || unseen) && p.sum != s.tornSum {
		s.tornSum, same = p.sum, false
	}
	return p.images, same, nil
}
