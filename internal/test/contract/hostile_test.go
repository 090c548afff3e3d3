// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// TestModelKernel compares the model's answers with the snapshot's.
func TestModelKernel(t *testing.T) {
	for seed := *modelSeed; seed < *modelSeed+int64(rewritetest.Rounds(*modelSeeds)); seed++ {
		w := newWorld(seed)
		s := w.snapshot()
		for range 50 {
			addr, q := w.address(), w.instant()
			if w.r.Intn(4) == 0 {
				q = q.Union(w.instant())
			}
			hit, _ := s.At(addr, q)
			want := w.at(addr, q)
			isSame := hit.Reason == want.reason && (hit.Image == nil) == (want.image == nil)
			if isSame && hit.Image != nil {
				isSame = hit.Image.Name() == want.image.Name() && hit.Image.Start == want.image.start &&
					hit.Image.End == want.image.end && (!hit.Symbol.Exists()) == (want.symbol == nil)
			}
			if isSame && want.symbol != nil {
				n, got, wanted := hit.Name(), hit.Symbol, want.symbol
				isSame = [2]uint64{wanted.start, wanted.end} == [2]uint64{got.Start, got.End()} &&
					wanted.name == n.Name && wanted.system == n.System && wanted.folded == n.Folded
			}
			if !isSame {
				t.Errorf("seed %d: %#x at %v: %+v, want %+v", seed, addr, q, hit, want)
			}
		}
	}
}

// TestModelHostile checks that messages built to be expensive come out valid, whether or not their frames get
// names.
func TestModelHostile(t *testing.T) {
	for _, shape := range rewritetest.HostileShapes {
		for seed := range int64(max(1, rewritetest.Rounds(8))) {
			c := newModelCase(seed)
			first := slots + 0x1000
			addresses := [3]uint64{first, first + 0x100, first + 0x400}
			if len(c.images) > 2 {
				addresses = [3]uint64{c.images[0].start, c.images[1].start, c.images[2].start}
			}
			c.in = shape.New(300, addresses)
			for _, s := range c.in.ResourceProfiles().All() {
				profile := s.ScopeProfiles().At(0).Profiles().At(0)
				profile.SetTime(pcommon.Timestamp(c.clock.unix(c.moment(), false)))
				for _, sample := range profile.Samples().All() {
					if stamps := sample.TimestampsUnixNano(); stamps.Len() == 0 {
						stamps.Append(c.clock.unix(c.moment(), false))
					}
				}
			}
			c.checkHostile(t, shape.Name)
		}
	}
}

// checkHostile checks a message that may be malformed and may have duplicates.
func (c *modelCase) checkHostile(t *testing.T, name string) {
	out, _ := c.rewrite(c.in)
	valid := rewritetest.CheckValid(c.in) == nil
	if err := rewritetest.CheckRewritten(c.in, out); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if valid {
		c.errs = nil
		c.checkAll(out)
		for _, err := range c.errs {
			t.Errorf("%s: %.300s", name, err)
		}
	}
}
