// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"context"
	"time"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// polling stands in for a recorder where records are refused: everything may come and go
// unseen, so that programs are listed again and again.
type polling struct {
	now  func() int64
	last int64
}

// pollInterval is the time between two lists of programs without records. Where a list
// takes more than one part in pollShare of it, it is longer: a program takes about pollCost.
const (
	pollInterval = 250 * time.Millisecond
	pollShare    = 100
	pollCost     = time.Microsecond
)

func (*polling) Wait(ctx context.Context, deadline time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(deadline)):
		return nil
	}
}

func (p *polling) Drain() perfring.Batch {
	at := p.now()
	b := perfring.Batch{Blind: []perfring.Interval{{From: p.last, To: at}}, At: at, Certain: at}
	p.last = at
	return b
}

func (*polling) RefreshCPUs(bool) error { return nil }

func (*polling) Close() error { return nil }
