// SPDX-License-Identifier: Apache-2.0

package symcache

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// once is a source that publishes one table, if it has one, and then returns an error.
type once struct {
	name     string
	table    *timeline.Table
	degraded error
	err      error
}

func (o once) Name() string { return o.name }

func (o once) Run(ctx context.Context, publish func(Update)) error {
	if o.table == nil {
		return o.err
	}
	publish(Update{Table: o.table, Degraded: o.degraded})
	<-ctx.Done()
	return ctx.Err()
}

// TestLoad verifies that a problem of one source does not hold back the symbols of the others,
// and is reported.
func TestLoad(t *testing.T) {
	refused, partial := errors.New("refused"), errors.New("partial")
	snapshot, err := Load(t.Context(),
		once{name: "good", table: table(t, "f", 0x10)},
		once{name: "bad", err: refused},
		once{name: "degraded", table: table(t, "g", 0x20), degraded: partial},
	)
	require.ErrorIs(t, err, refused)
	require.ErrorIs(t, err, partial)
	require.EqualError(t, err, "bad: refused\ndegraded: partial")
	for addr, want := range map[uint64]string{0x10: "f", 0x20: "g"} {
		assert.Equal(t, want, nameIn(snapshot, addr))
	}

	_, err = Load(t.Context(), once{name: "good", table: table(t, "f", 0x10)})
	require.NoError(t, err)
}

// TestLoadEndsWithItsContext has a source that never publishes.
func TestLoadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Load(ctx, newFake("slow"))
	assert.ErrorIs(t, err, context.Canceled)
}
