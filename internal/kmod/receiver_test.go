package kmod

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

func moduleEventOf(action, module string) uevent.Event {
	return uevent.Event{Action: action, DevPath: "/module/" + module, Subsystem: "module"}
}

// TestEventsThatComeWhileNothingLooks: files are read for a while, and meanwhile one
// module goes and another takes its place.
func TestEventsThatComeWhileNothingLooks(t *testing.T) {
	k := newKernel(t)
	s, known := k.remembering()
	conn := make(told)
	w := newWatcher(t.Context(), func() (events, error) { return conn, nil }, time.Millisecond, &s.stats)
	defer w.close()
	known.begin(w.news)
	look := func() {
		_, err := known.refresh(t.Context(), func() { known.table() })
		require.NoError(t, err)
	}
	k.showA()
	look()
	inA := pause()
	conn <- moduleEventOf("remove", "a")
	k.showB()
	conn <- moduleEventOf("add", "b")
	inB := pause()
	time.Sleep(100 * time.Millisecond)
	require.True(t, w.wait(t.Context(), 0))
	look()
	table := known.table()
	assert.Equal(t, "in_a", moduleAt(table, inA))
	assert.Equal(t, "in_b", moduleAt(table, inB))
	a, ok := symtab.NewSnapshot(table).ModuleByBuildID("aaaaaaaa")
	require.True(t, ok)
	b := table.Modules()[0]
	assert.True(t, inA < a.Valid.To && a.Valid.To < inB, "a went when the event came")
	assert.True(t, a.Valid.To <= b.Valid.From && b.Valid.From < inB, "and b came then")
	assert.LessOrEqual(t, a.Valid.To, possibleFrom(b))
	assert.False(t, known.when.missed)

	close(conn) // it breaks
	require.True(t, w.wait(t.Context(), 0))
	look()
	assert.True(t, known.when.missed)
}
