// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"cmp"
	"net"
)

// A Sender is where messages come from. The zero value is this collector itself.
type Sender struct {
	Host string
	Port string // of the connection
}

// SenderAt returns the sender at an address, which may be nil.
func SenderAt(address net.Addr) Sender {
	if address == nil {
		return Sender{}
	}
	host, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return Sender{Host: address.String()}
	}
	return Sender{Host: host, Port: port}
}

// host returns what stands for all connections of the host.
func (s Sender) host() Sender { return Sender{Host: s.Host, Port: "*"} }

// turns says which senders were served last in a place. The zero value says that none was.
type turns struct {
	n      uint64            // how many turns there were
	served map[Sender]uint64 // the last turn of connections, and of hosts
}

// maxServed is how many connections and hosts are remembered. When there are more, all are equal again.
const maxServed = 4 * maxWishes

// take gives the next turn to a sender.
func (t *turns) take(from Sender) {
	if t.served == nil || len(t.served) >= maxServed {
		t.served = make(map[Sender]uint64)
	}
	t.n++
	t.served[from], t.served[from.host()] = t.n, t.n
}

// A turn says when a wish is served: the lowest first.
type turn struct {
	host, conn uint64 // since when the sender has waited, by the last turns of its host and of its connection
	confirmed  bool
	asked      int
}

// compare compares which of two turns comes first.
func (a turn) compare(b turn) int {
	if order := cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.conn, b.conn)); order != 0 {
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

// of returns the turn of a wish, and the sender whose turn that is: the one of its senders that has waited longest. A
// sender has waited since it was last served, but not longer than its wish. Otherwise those who were never served, of whom
// there can be any number, would come before all others.
func (t *turns) of(w *wish) (first turn, whose Sender) {
	for i, s := range w.senders {
		at := turn{max(t.served[s.host()], w.since), max(t.served[s], w.since), w.isConfirmed(), w.asked}
		if i == 0 || at.compare(first) < 0 {
			first, whose = at, s
		}
	}
	return first, whose
}
