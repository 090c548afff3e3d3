// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// A churn has code of one kind come and go.
type churn struct {
	name    string
	mayMiss float64 // share of the frames that may have no name

	// visit has the kernel take code and give it up while a collector runs, and returns
	// what was there. It is called with 0, 1, ...
	visit func(ctx context.Context, c *collector, n int) (*visit, error)

	visits, frames, unnamed atomic.Int64
}

func (c *churn) String() string {
	return fmt.Sprintf("%d frames of %s %s gone (%d of them without a name)", c.frames.Load(), c.name, late, c.unnamed.Load())
}

// A visit is code that was there for a while.
type visit struct {
	of     *churn
	at     time.Time // when it was there
	places []place
}

// A place is an address of which is known whose it was.
type place struct {
	addr   uint64
	module string              // "" of a BPF program
	isName func(n string) bool // what it can be called
}

// message returns a profile of a sample in each of the places.
func (v *visit) message(id string) pprofile.Profiles {
	m := rewritetest.NewMessage().Profile(map[string]any{idKey: id}, "")
	for _, p := range v.places {
		m.Sample(rewritetest.Frame{Address: p.addr, Type: "kernel"})
		m.LastSample().TimestampsUnixNano().Append(uint64(v.at.UnixNano()))
	}
	return m.Profiles
}

// check checks the frame that one of the places has become: their addresses have had
// many owners.
func (v *visit) check(i int, f rewritetest.Frame) error {
	p := v.places[i]
	defer v.of.frames.Add(1) // last: the difference is what has names
	switch {
	case len(f.Lines) == 0 && (f.Mapping == nil || f.Mapping.File == p.module):
		v.of.unnamed.Add(1)
	case len(f.Lines) == 0 || !p.isName(f.Lines[0].System) || p.module != "" && (f.Mapping == nil || f.Mapping.File != p.module):
		return fmt.Errorf("%#x of %s %s is named %+v, %+v", p.addr, v.of.name, p.module, f.Lines, f.Mapping)
	}
	return nil
}
