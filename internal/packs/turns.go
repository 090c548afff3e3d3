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

// compareSenders compares since when senders have waited: since each was last served, its host first, but not longer than
// its wish waits. Otherwise those who were never served, of whom there can be any number, would come before all others.
func (t *turns) compareSenders(a Sender, since uint64, b Sender, sinceB uint64) int {
	return cmp.Or(
		cmp.Compare(max(t.served[a.host()], since), max(t.served[b.host()], sinceB)),
		cmp.Compare(max(t.served[a], since), max(t.served[b], sinceB)),
	)
}

// whose returns the sender of a wish whose turn comes first.
func (t *turns) whose(w *wish) Sender {
	first := w.senders[0]
	for _, s := range w.senders[1:] {
		if t.compareSenders(s, w.since, first, w.since) < 0 {
			first = s
		}
	}
	return first
}

// compare compares which of two wishes comes first.
func (t *turns) compare(a, b *wish) int {
	return cmp.Or(
		t.compareSenders(t.whose(a), a.since, t.whose(b), b.since),
		compareConfirmed(a, b), cmp.Compare(b.asked, a.asked),
	)
}
