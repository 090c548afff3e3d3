// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"cmp"
	"net"
)

// HostOf returns the host of an address without the port, which not every receiver gives. It is empty if the address is
// nil, as for messages of this collector itself.
func HostOf(address net.Addr) string {
	if address == nil {
		return ""
	}
	host, _, err := net.SplitHostPort(address.String())
	if err != nil {
		return address.String()
	}
	return host
}

// turns says which hosts were served last in a place. The zero value says that none was.
type turns struct {
	n      uint64            // how many turns there were
	served map[string]uint64 // the last turn of each host
}

// maxServed is how many hosts are remembered. When there are more, all are equal again.
const maxServed = 4 * maxWishes

// take gives the next turn to a host.
func (t *turns) take(host string) {
	if t.served == nil || len(t.served) >= maxServed {
		t.served = make(map[string]uint64)
	}
	t.n++
	t.served[host] = t.n
}

// A turn says when a wish is served: the lowest first.
type turn struct {
	since     uint64 // since when the host has waited, by its last turn
	confirmed bool
	asked     int
}

// compare compares which of two turns comes first.
func (a turn) compare(b turn) int {
	if order := cmp.Compare(a.since, b.since); order != 0 {
		return order
	}
	if a.confirmed != b.confirmed {
		if a.confirmed {
			return -1
		}
		return 1
	}
	return cmp.Compare(b.asked, a.asked)
}

// of returns the turn of a wish, and the host whose turn that is: the one of its hosts that has waited longest. A host
// has waited since it was last served, but not longer than its wish. Otherwise those that were never served, of which
// there can be any number, would come before all others.
func (t *turns) of(w *wish) (first turn, whose string) {
	for i, host := range w.hosts {
		at := turn{max(t.served[host], w.since), w.isConfirmed(), w.asked}
		if i == 0 || at.compare(first) < 0 {
			first, whose = at, host
		}
	}
	return first, whose
}
