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

// A churn loads and unloads code of one kind.
type churn struct {
	name    string
	mayMiss float64 // share of frames that may lack a name

	// visit has the kernel load and unload code while a collector runs, and returns where and when
	// the code was loaded. It is called with n = 0, 1, ...
	visit func(ctx context.Context, c *collector, n int) (*visit, error)

	visits, frames, unnamed atomic.Int64
}

func (c *churn) String() string {
	return fmt.Sprintf("%d frames of %s %s gone (%d of them without a name)", c.frames.Load(), c.name, late, c.unnamed.Load())
}

// A visit is code that was loaded for a while.
type visit struct {
	of     *churn
	at     time.Time // when it was loaded
	places []place
}

// A place is an address with a known owner.
type place struct {
	addr   uint64
	module string              // "" for a BPF program
	isName func(n string) bool // whether the code can have a name
}

// message returns a profile with a sample in each of the places.
func (v *visit) message(id string) pprofile.Profiles {
	m := rewritetest.NewMessage().Profile(map[string]any{idKey: id}, "")
	for _, p := range v.places {
		m.Sample(rewritetest.Frame{Address: p.addr, Type: "kernel"})
		m.LastSample().TimestampsUnixNano().Append(uint64(v.at.UnixNano()))
	}
	return m.Profiles
}

// check checks what the frame in one of the places has become. The addresses have had many owners.
func (v *visit) check(i int, f rewritetest.Frame) error {
	p := v.places[i]
	defer v.of.frames.Add(1) // last, so that frames minus unnamed never exceeds the frames with names
	switch {
	case len(f.Lines) == 0 && (f.Mapping == nil || f.Mapping.File == p.module):
		v.of.unnamed.Add(1)
	case len(f.Lines) == 0 || !p.isName(f.Lines[0].System) || p.module != "" && (f.Mapping == nil || f.Mapping.File != p.module):
		return fmt.Errorf("%#x of %s %s is named %+v, %+v", p.addr, v.of.name, p.module, f.Lines, f.Mapping)
	}
	return nil
}
