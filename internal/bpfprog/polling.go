// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"context"
	"time"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// polling stands in for a source of records where the kernel refuses them: programs may be loaded and unloaded unseen
// at any time, so they are listed again and again.
type polling struct {
	now  func() int64
	last int64
}

// pollInterval is the time between two lists of programs without records. It grows so that lists take at most
// one part in pollShare of it, at about pollCost for each program.
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

func (p *polling) Poll() perfring.Batch {
	at := p.now()
	b := perfring.Batch{Blind: []perfring.Interval{{From: p.last, To: at}}, At: at, Certain: at}
	p.last = at
	return b
}

func (*polling) RefreshCPUs(bool) error { return nil }

func (*polling) MissesCPU() bool { return false }

func (*polling) Close() error { return nil }
