// SPDX-License-Identifier: Apache-2.0

package perfring

// A Thread records the [Switches] of one thread. It is not safe for concurrent use.
type Thread struct {
	ring    *ring
	records []Record
	lost    bool
}

// threadBytes is the size of a thread's ring. It holds about 50 switches, until Records empties it.
const threadBytes = 16 << 10

// OpenThread starts to record the calling thread, to which the goroutine must be locked. It takes one file, and 16 KiB and a
// page of locked memory. Its errors are like those of [Open].
func OpenThread() (*Thread, error) {
	g, err := openRing(&Options{Event: Switches{}, BytesPerCPU: threadBytes}, cpu{number: ownThread})
	if err != nil {
		return nil, err
	}
	return &Thread{ring: g}, nil
}

// Records returns all records so far, in the order in which they were written; any goroutine may ask. If records may be
// missing, it returns ErrLost, now and later.
func (t *Thread) Records() ([]Record, error) {
	from := *t.ring.tail
	err := t.ring.drain(func(raw []byte) {
		r, ok, err := parse(raw, t.ring.has)
		t.lost = t.lost || err != nil || ok && r.Type == TypeLost
		if ok && err == nil {
			t.records = append(t.records, r)
		}
	})
	t.lost = t.lost || err != nil || t.ring.wasCrowded(from)
	if t.lost {
		return nil, ErrLost
	}
	return t.records, nil
}

// Close stops recording and frees the ring.
func (t *Thread) Close() error { return t.ring.close() }
