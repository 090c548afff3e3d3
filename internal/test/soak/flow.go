// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// idKey is the resource attribute that identifies a message.
const idKey = "soak.id"

// A flow loads and unloads kernel code, sends profiles through a collector, and checks the profiles
// that come out.
type flow struct {
	truth *truth
	churn []*churn
	sends bool
	blind float64 // seconds in which the collector may have missed something

	mu       sync.Mutex
	expected map[string]*visit // by message
	wrong    []error

	profiles     atomic.Int64
	core, stacks atomic.Int64 // frames that were checked, not counting visits
}

func newFlow(t *truth, sends bool, churn ...*churn) *flow {
	return &flow{truth: t, sends: sends, churn: churn, expected: make(map[string]*visit)}
}

// isComplete reports whether something of each kind came out with its name.
func (f *flow) isComplete() bool {
	return !f.sends || f.core.Load() > 0 && f.stacks.Load() > 0 &&
		!slices.ContainsFunc(f.churn, func(c *churn) bool { return c.frames.Load() <= c.unnamed.Load() })
}

// late is how long after code is unloaded its samples are sent.
const late = 2 * time.Second

// run loads and unloads code until ctx is done. It sends profiles of the kernel, and of loaded code
// after it is gone.
func (f *flow) run(ctx context.Context, c *collector) error {
	var running sync.WaitGroup
	errs := make(chan error, len(f.churn))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, churn := range f.churn {
		running.Go(func() {
			if err := f.follow(ctx, churn, c, &running); err != nil {
				cancel()
				errs <- err
			}
		})
	}
	if f.sends {
		for ctx.Err() == nil {
			f.send(ctx, c, f.truth.message("core"))
			pause(ctx, 40*time.Millisecond)
		}
	}
	running.Wait()
	close(errs)
	var all error
	for err := range errs {
		all = errors.Join(all, err)
	}
	return all
}

// follow loads and unloads one kind of code, and sends samples of it some time later.
func (f *flow) follow(ctx context.Context, churn *churn, c *collector, running *sync.WaitGroup) error {
	for n := 0; ctx.Err() == nil; n++ {
		v, err := churn.visit(ctx, c, n)
		if err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // it was cut short
			}
			return err
		}
		v.of = churn
		churn.visits.Add(1)
		if !f.sends {
			continue
		}
		id := fmt.Sprint(churn.name, n)
		running.Go(func() {
			if !pause(ctx, late) {
				return
			}
			f.mu.Lock()
			f.expected[id] = v
			f.mu.Unlock()
			f.send(ctx, c, v.message(id))
		})
	}
	return nil
}

// pause waits, and returns false if ctx is done first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// send sends a profile, even if the time ends while it does.
func (f *flow) send(ctx context.Context, c *collector, pd pprofile.Profiles) {
	if err := c.client.Send(context.WithoutCancel(ctx), pd); err != nil {
		f.fail(fmt.Errorf("a profile is refused: %w", err))
		return
	}
	f.profiles.Add(1)
}

func (f *flow) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wrong = append(f.wrong, err)
}

// receive checks a message that comes out.
func (f *flow) receive(pd pprofile.Profiles) {
	if err := rewritetest.CheckSent(pd); err != nil {
		f.fail(err)
		return
	}
	samples := rewritetest.Samples(pd)
	id, ok := pd.ResourceProfiles().At(0).Resource().Attributes().Get(idKey)
	switch {
	case !ok:
		for _, s := range samples {
			f.checkStack(s.Stack)
		}
	case id.Str() == "core":
		for i, s := range samples {
			f.core.Add(1)
			if lines := s.Stack[0].Lines; len(lines) != 1 || lines[0].System != f.truth.wants[i] {
				f.fail(fmt.Errorf("%s is named %+v", f.truth.wants[i], lines))
			}
		}
	case id.Str() != "":
		f.mu.Lock()
		v := f.expected[id.Str()]
		delete(f.expected, id.Str())
		f.mu.Unlock()
		if v == nil {
			return // it came out before: the exporter resends what takes long
		}
		for i, s := range samples {
			if err := v.check(i, s.Stack[0]); err != nil {
				f.fail(err)
			}
		}
	}
}

// checkStack checks a stack that was really sampled.
func (f *flow) checkStack(stack []rewritetest.Frame) {
	for _, frame := range stack {
		if len(frame.Lines) == 0 || frame.Address < f.truth.starts[0] || frame.Address >= f.truth.end {
			continue
		}
		f.stacks.Add(1)
		if name := frame.Lines[0].System; !f.truth.isName(frame.Address, name) {
			f.fail(fmt.Errorf("%x is named %s", frame.Address, name))
		}
	}
}

// check returns an error for a wrong name, or if too few frames have names. A share counts only
// with enough frames.
func (f *flow) check(say func(string)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	say(fmt.Sprintf("names: %d frames of known functions, %d of sampled stacks", f.core.Load(), f.stacks.Load()))
	if n := len(f.wrong); n > 0 {
		return fmt.Errorf("%d times wrong, first: %w", n, f.wrong[0])
	}
	say(fmt.Sprintf("names: %.3f s in which some may have been missed", f.blind))
	if !f.isComplete() {
		return errors.New("too few names")
	}
	const enough = 100
	for _, c := range f.churn {
		say("names: " + c.String())
		if f.blind == 0 && c.frames.Load() >= enough && c.unnamed.Load() > int64(c.mayMiss*float64(c.frames.Load())) {
			return fmt.Errorf("too few names of %s", c.name)
		}
	}
	return nil
}
