// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAListThatIsInterruptedDidNotFail: the next round repeats the list at once.
func TestAListThatIsInterruptedDidNotFail(t *testing.T) {
	a, all := prog(1, 1, 0, 0x1000), newFakes()
	r := newTestSource(t, all)
	all.loaded[1] = a
	at := r.now()
	r.loseRecords(at-ms, at)
	ctx, cancel := context.WithCancel(t.Context())
	all.onNext = cancel
	r.state.listAt = time.Time{}
	_, err := r.Source.round(ctx)
	require.NoError(t, err)
	all.onNext = nil
	r.round(t.Context())
	require.NoError(t, r.err)
	r.expect(a)
}
