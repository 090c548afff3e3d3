package kmod

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// TestRunGoesOn has a source fail, and run again after another module was loaded.
func TestRunGoesOn(t *testing.T) {
	k := newKernel(t)
	s, _ := k.remembering()
	conn := make(told)
	s.dial = func() (events, error) { return conn, nil }
	var table *symtab.Table
	run := func(react func()) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return s.Run(ctx, func(t *symtab.Table, _ error) {
			table = t
			if react == nil {
				cancel()
				return
			}
			go react()
			react = func() {}
		})
	}
	k.showA()
	var inA int64
	require.ErrorIs(t, run(func() {
		inA = pause()
		k.write("proc/modules", "?\n")
		conn <- moduleEventOf("remove", "a")
	}), ErrSyntax)
	looked := s.known.when.looked
	assert.Equal(t, []string{"a"}, names(table))

	k.showB()
	require.NoError(t, run(nil))
	inB := pause()
	assert.Equal(t, []string{"b"}, names(table))
	assert.Equal(t, "in_a", moduleAt(table, inA-int64(time.Second)))
	assert.Equal(t, "in_b", moduleAt(table, inB))
	a, ok := symtab.NewSnapshot(table).ModuleByBuildID("aaaaaaaa")
	require.True(t, ok)
	b := table.Modules()[0]
	assert.Equal(t, looked, a.Valid.To, "when it was seen last")
	assert.InDelta(t, looked, possibleFrom(b), 2000, "when the place was not b's yet")

	require.NoError(t, run(nil))
	assert.Equal(t, b.Valid, table.Modules()[0].Valid, "it stays what it was")
	assert.Equal(t, 1, table.History())
}
