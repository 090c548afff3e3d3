// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// watchedRecords makes tables from records, as the source does.
type watchedRecords struct {
	history *timeline.Builder
	loaders *loaders
	changes changes
}

func (w *watchedRecords) apply(records ...perfring.Record) (lines []change, unseen int) {
	w.loaders.note(records)
	for _, r := range records {
		if r.Symbol.Unregister {
			w.history.Unload(w.history.At(r.Symbol.Addr), r.Time)
		} else {
			w.history.Load(timeline.NewFunction(timeline.OriginTrampoline, r.Symbol.Name, r.Symbol.Addr, 64, r.Time))
		}
	}
	lines = w.changes.next(w.history.Table())
	return lines, w.loaders.unseen()
}

func symbolRecord(at int64, addr uint64, gone bool) perfring.Record {
	return perfring.Record{Type: perfring.TypeKsymbol, Time: at, Symbol: &perfring.Symbol{Addr: addr, Name: "bpf_x", Unregister: gone}}
}

// TestCountsWhatItCannotShow verifies that each load is either shown or counted, exactly once.
func TestCountsWhatItCannotShow(t *testing.T) {
	const a, b, c = 0xffffffffc0001000, 0xffffffffc0002000, 0xffffffffc0003000
	w := watchedRecords{history: timeline.NewBuilder(remembered), loaders: newLoaders(t.TempDir())}
	w.changes.loaders = w.loaders
	check := func(wantLines, wantUnseen int, records ...perfring.Record) {
		t.Helper()
		lines, unseen := w.apply(records...)
		assert.Len(t, lines, wantLines)
		assert.Equal(t, wantUnseen, unseen)
	}
	check(0, 0, symbolRecord(1, a, false), symbolRecord(2, b, false), symbolRecord(3, b, true)) // before it begins
	check(1, 0, symbolRecord(4, a, true))
	check(1, 0, symbolRecord(5, b, false))
	check(1, 1, symbolRecord(6, b, true), symbolRecord(7, c, false), symbolRecord(8, c, true))
	check(2, 1, symbolRecord(9, a, false), symbolRecord(10, b, false), symbolRecord(11, b, true), symbolRecord(12, b, false))
	check(2, 0, symbolRecord(13, a, true), symbolRecord(14, b, true))
	check(0, 3, symbolRecord(15, a, false), symbolRecord(16, a, true), symbolRecord(17, a, false), symbolRecord(18, a, true),
		symbolRecord(19, c, false), symbolRecord(20, c, true))
	assert.Empty(t, w.loaders.by, "nothing is kept")
}

func TestUnshownIsSaidNowAndThen(t *testing.T) {
	var out strings.Builder
	var u unshown
	u.say(printable.New(&out, false), true)
	assert.Empty(t, out.String())
	u.add(1, 0)
	u.say(printable.New(&out, false), false)
	u.add(1, 2)
	u.say(printable.New(&out, false), false)
	assert.Equal(t, "1 piece of BPF code came and went before they could be shown.\n", out.String(), "the rest is said later")
	out.Reset()
	u.say(printable.New(&out, false), true)
	u.say(printable.New(&out, false), true)
	assert.Equal(t, "2 pieces of BPF code came and went before they could be shown.\n"+
		"The kernel lost 2 records: what came and went at that time may be missing.\n", out.String())
}
