// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"bytes"
	"flag"
	"fmt"
	"slices"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

var (
	modelSeeds = flag.Int("model.seeds", 1000, "number of random worlds")
	modelSeed  = flag.Int64("model.seed", 0, "the first of them")
	modelSteps = flag.Int("model.steps", 2, "how often the wall clock is set at most")
	modelFail  = flag.Int("model.fail", 10, "number of worlds that fail after which the test ends")
)

// TestModel compares what is done to random messages about random kernels with a model that
// answers one sample at a time, by docs/contract.md. It reproduces with -model.seed.
func TestModel(t *testing.T) {
	failed := 0
	for seed := *modelSeed; seed < *modelSeed+int64(rewritetest.Rounds(*modelSeeds)); seed++ {
		c := newModelCase(seed)
		if errs := c.run(); len(errs) > 0 {
			t.Errorf("seed %d (%+v):", seed, c.opts)
			for _, err := range errs[:min(len(errs), 6)] {
				t.Errorf("\t%s", err)
			}
			if failed++; failed == *modelFail {
				t.Fatalf("that was seed %d", seed)
			}
		}
	}
}

// TestContract_4_1_OneAnswerOnAllHosts verifies that frames of BPF code with one file ID and one address have one answer: the worlds are
// hosts, on which the same program can have other code, and other lines.
func TestContract_4_1_OneAnswerOnAllHosts(t *testing.T) {
	type id struct {
		file    string
		address uint64
	}
	answers := make(map[id]string)
	again := 0
	for seed := range int64(rewritetest.Rounds(*modelSeeds)) {
		c := newModelCase(seed)
		if c.opts.Addresses == rewrite.KeepAddresses {
			continue // an exact frame and a caller can have one address
		}
		arrived := make(map[string]bool) // the lines that producers sent
		for _, s := range rewritetest.Samples(c.in) {
			for _, f := range s.Stack {
				arrived[fmt.Sprintf("%+v", f.Lines)] = true
			}
		}
		out, _ := c.rewrite(c.in)
		for _, s := range samplesOf(out) {
			for _, f := range s.stack {
				if s.profiler || len(f.Lines) == 0 || f.Lines[0].System == "" || f.Mapping == nil || f.Mapping.File != "[bpf]" {
					continue
				}
				frame, answer := id{f.Mapping.FileID, f.Address}, fmt.Sprintf("%+v", f.Lines)
				if arrived[answer] {
					continue
				}
				if other, isKnown := answers[frame]; isKnown {
					again++
					if other != answer {
						t.Fatalf("seed %d: %+v is %s, and %s on another host", seed, frame, answer, other)
					}
				}
				answers[frame] = answer
			}
		}
	}
	if again == 0 {
		t.Error("no two hosts have a frame with one id")
	}
}

// A modelCase is a message that is rewritten.
type modelCase struct {
	*world
	opts  rewrite.Options
	clock *modelClock
	known rewrite.Sources
	in    pprofile.Profiles
	errs  []string
	whys  map[string]bool // what became of the frames, by the model
	may   map[string]bool // what may have, too
}

func newModelCase(seed int64) *modelCase {
	w := newWorld(seed)
	c := &modelCase{world: w, whys: map[string]bool{}, may: map[string]bool{}}
	c.opts = rewrite.Options{
		All: w.r.Intn(3) == 0, Addresses: rewrite.Addresses(w.r.Intn(4)), Label: w.r.Intn(4) == 0,
		History: w.limits.TTL, IsForeign: isOther,
	}
	if w.r.Intn(2) == 0 {
		c.opts.DebugInfo, c.opts.Inline = true, w.r.Intn(3) != 0
		c.known.Packs = w.newPacks()
	}
	c.opts.AbsoluteFromLocal, c.known.Local = w.r.Intn(2) == 0, w.r.Intn(2) == 0
	w.located = w.core != nil && seed%8 == 7
	w.guessed = (c.opts.AbsoluteFromLocal || w.located) && !c.known.Local
	snapshot := w.snapshot()
	c.known.Snapshot, c.known.Now = func() *timeline.Snapshot { return snapshot }, w.now
	c.clock = w.newClock()
	if w.r.Intn(10) != 0 {
		c.known.Clock = c.clock.clock
	}
	late := w.r.Intn(3) == 0
	c.in = w.message(func(boot int64) uint64 { return c.clock.unix(boot, late) })
	return c
}

func isOther(r pcommon.Resource) bool {
	host, ok := r.Attributes().Get("host.name")
	return ok && host.Str() == "other"
}

func (c *modelCase) failf(format string, args ...any) {
	if err := fmt.Sprintf(format, args...); !slices.Contains(c.errs, err) {
		c.errs = append(c.errs, err)
	}
}

// run returns the errors that it finds.
func (c *modelCase) run() []string {
	out, counts := c.rewrite(c.in)
	c.compare(out)
	c.checkCounts(counts)
	c.checkAll(out)
	c.checkMalformed()
	return c.errs
}

func (c *modelCase) rewrite(pd pprofile.Profiles) (pprofile.Profiles, rewrite.Counts) {
	in := copyOf(pd)
	result := rewrite.New(c.opts).Rewrite(in, c.known)
	return result.Profiles, result.Counts
}

func copyOf(pd pprofile.Profiles) pprofile.Profiles {
	c := pprofile.NewProfiles()
	pd.CopyTo(c)
	return c
}

// marshalled returns a message's bytes. Marshalling changes a message, so it is copied.
func marshalled(pd pprofile.Profiles) []byte {
	b, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(copyOf(pd))
	if err != nil {
		panic(err)
	}
	return b
}

// shown returns the number of frames and mappings that show an absolute kernel address.
func shown(pd pprofile.Profiles) (n int) {
	d := pd.Dictionary()
	for i, loc := range d.LocationTable().All() {
		if isShown(rewritetest.FrameAt(d, int32(i)).Type, loc.Address()) {
			n++
		}
	}
	for _, m := range d.MappingTable().All() {
		if showsKernel(m.MemoryStart(), m.MemoryLimit(), m.FileOffset()) {
			n++
		}
	}
	return n
}

// payloads returns the number of profiles that have an original payload.
func payloads(pd pprofile.Profiles) (n int) {
	for _, p := range rewritetest.Profiles(pd) {
		if p.OriginalPayload().Len() > 0 {
			n++
		}
	}
	return n
}

// withoutAddresses returns a message without the absolute addresses and payloads that may be hidden.
func withoutAddresses(pd pprofile.Profiles) pprofile.Profiles {
	pd = copyOf(pd)
	for _, loc := range pd.Dictionary().LocationTable().All() {
		if loc.Address()>>63 != 0 {
			loc.SetAddress(0)
		}
	}
	for _, m := range pd.Dictionary().MappingTable().All() {
		if (m.MemoryStart()|m.MemoryLimit()|m.FileOffset())>>63 != 0 || m.MemoryStart() == 0 && m.FileOffset() == 0 {
			m.SetMemoryStart(0)
			m.SetMemoryLimit(0)
			m.SetFileOffset(0)
		}
	}
	for _, p := range rewritetest.Profiles(pd) {
		p.SetOriginalPayloadFormat("")
		p.OriginalPayload().FromRaw(nil)
	}
	return pd
}

// checkAll checks what holds for every message.
func (c *modelCase) checkAll(out pprofile.Profiles) {
	hides := (&asker{world: c.world, opts: c.opts}).hides()
	if hides && shown(out) > 0 {
		c.failf("contract 4.1: %d absolute addresses are shown", shown(out))
	}
	if n := payloads(out); hides && n > 0 || !hides && n != payloads(c.in) {
		c.failf("contract 4.1: %d profiles have their payload", n)
	}
	if err := rewritetest.CheckValid(c.in); err != nil {
		c.failf("the message that came is not valid: %v", err)
	}
	if err := rewritetest.CheckRewritten(c.in, out); err != nil {
		c.failf("%v", err)
	}
	if err := rewritetest.CheckTyped(out, func(rp pprofile.ResourceProfiles) bool { return isOther(rp.Resource()) }); err != nil {
		c.failf("%v", err)
	}
	first := marshalled(out)
	if again, _ := c.rewrite(c.in); !bytes.Equal(first, marshalled(again)) {
		c.failf("the same message has come out in two ways")
	}
	second, _ := c.rewrite(out)
	if !bytes.Equal(first, marshalled(second)) {
		c.failf("rewriting again changes it: %s", difference(out, second))
	}
}

// difference returns the first difference between two messages.
func difference(a, b pprofile.Profiles) string {
	if x, y := a.Dictionary().LocationTable(), b.Dictionary().LocationTable(); true {
		for i := range min(x.Len(), y.Len()) {
			f, g := rewritetest.FrameAt(a.Dictionary(), int32(i)), rewritetest.FrameAt(b.Dictionary(), int32(i))
			if s, r := show(f), show(g); s != r {
				return fmt.Sprintf("location %d: %s becomes %s", i, s, r)
			}
		}
		if i := x.Len(); i < y.Len() {
			return "new location " + show(rewritetest.FrameAt(b.Dictionary(), int32(i)))
		}
	}
	return "not in the locations"
}

func show(f rewritetest.Frame) string {
	m := f.Mapping
	f.Mapping = nil
	if m == nil {
		return fmt.Sprintf("%#x %q %+v %v", f.Address, f.Type, f.Lines, f.Attributes)
	}
	return fmt.Sprintf("%#x %q %+v %v %+v", f.Address, f.Type, f.Lines, f.Attributes, *m)
}

// checkCounts checks that the counts have the outcomes that the model gives the frames.
func (c *modelCase) checkCounts(counts rewrite.Counts) {
	counted := map[string]bool{}
	for outcome, origins := range counts {
		for _, n := range origins {
			if n > 0 {
				counted[group(rewrite.Outcome(outcome).String())] = true
			}
		}
	}
	c.expectNamed()
	for why := range c.whys {
		if why != "" && !counted[why] && c.known.Clock != nil {
			c.failf("nothing was counted as %s", why)
		}
	}
	for why := range counted {
		if !c.may[why] && c.known.Clock != nil {
			c.failf("something was counted as %s", why)
		}
	}
}

// expectNamed notes frames that came with a name, which count whether a sample uses them or not.
func (c *modelCase) expectNamed() {
	d, a := c.in.Dictionary(), asker{world: c.world}
	for i := range d.LocationTable().Len() {
		if f := rewritetest.FrameAt(d, int32(i)); !c.opts.All && a.isCandidate(f) && isNamed(f) {
			c.whys["named"], c.may["named"] = true, true
		}
	}
}

// group is the same for all reasons for which a frame has no name: a frame that has none at
// several times is counted with one of its reasons.
func group(why string) string {
	switch why {
	case "unresolved", "unobserved", "ambiguous":
		return "no name"
	}
	return why
}

// checkMalformed spoils one index: the message passes untouched (section 1.4), and its
// candidates count as invalid.
func (c *modelCase) checkMalformed() {
	bad := copyOf(c.in)
	what := c.spoil(bad)
	if what == "" {
		return
	}
	out, counts := c.rewrite(bad)
	if a := (asker{world: c.world, opts: c.opts}); a.hides() {
		bad, out = withoutAddresses(bad), withoutAddresses(out)
	}
	if !bytes.Equal(marshalled(bad), marshalled(out)) {
		c.failf("%s beyond its table: the message was changed", what)
	}
	only := rewrite.OutcomeInvalid
	if counts[only] == [timeline.NumOrigins]int{} {
		only = rewrite.OutcomeNamed // no candidate: nothing of it is read
	}
	counts[only] = [timeline.NumOrigins]int{}
	if counts != (rewrite.Counts{}) {
		c.failf("%s beyond its table: %v", what, counts)
	}
}
