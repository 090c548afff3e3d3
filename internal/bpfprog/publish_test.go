// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTablesAreMadeWhenAMessageAsks verifies that a load is applied at once, and that a table is published for it when
// a message asks, or after a while.
func TestTablesAreMadeWhenAMessageAsks(t *testing.T) {
	r := newTestSource(t, newFakes())
	r.publishEvery = time.Hour
	require.Equal(t, 1, r.tables)
	r.emit(loads(r.now(), prog(1, 1, 0, 0x1000))...)
	assert.NotNil(t, r.image(0x1000))
	assert.Equal(t, 1, r.tables)
	r.Refresh()
	assert.Equal(t, 2, r.tables)
	assert.NotEmpty(t, r.nameAt(0x1000))

	r.publishEvery = 0
	r.emit()
	assert.Equal(t, 2, r.tables, "nothing has changed")
	r.emit(loads(r.now(), prog(2, 2, 0, 0x2000))...)
	assert.Equal(t, 3, r.tables)
}

// TestHealthIsPublishedAtOnce verifies that an operator need not wait for a message.
func TestHealthIsPublishedAtOnce(t *testing.T) {
	all := newFakes()
	r := newTestSource(t, all)
	r.publishEvery = time.Hour
	all.err = errors.New("broken")
	r.loseRecords(r.now()-ms, r.now())
	r.listNow()
	require.ErrorIs(t, r.err, all.err)
	assert.Equal(t, 2, r.tables)
	all.err = nil
	r.listNow()
	require.NoError(t, r.err)
	assert.Equal(t, 3, r.tables)
}

// TestMessageWhilePolling verifies that a message gets the last list, and that nothing is read for it.
func TestMessageWhilePolling(t *testing.T) {
	all := newFakes(prog(1, 1, 0, 0x1000))
	r := newUnstarted(t, all)
	r.poll()
	r.round(t.Context())
	r.publishEvery = time.Hour
	tables := r.tables
	all.loaded[2] = prog(2, 2, 0, 0x2000)
	r.Refresh()
	assert.Equal(t, tables, r.tables, "it has been published")
	r.listNow()
	assert.Equal(t, tables, r.tables)
	r.Refresh()
	assert.Equal(t, tables+1, r.tables)
	assert.NotEmpty(t, r.nameAt(0x2000))
}
