// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// needTruth skips the test if programs cannot be loaded and sampled, or if no collector is built.
func needTruth(t *testing.T) {
	t.Helper()
	kerneltest.Built(t, kerneltest.Collector)
	kerneltest.NeedPerf(t)
	kerneltest.NeedBPF(t)
}

// old has the code that was loaded before the collector started.
type old struct {
	programs []program
	filters  []*socketFilter
}

// loadOld loads programs, and classic filters right after small programs.
func loadOld(t *testing.T, programs int) old {
	t.Helper()
	o := old{programs: loadSome(t, 0, programs)}
	fillHoles(t)
	for n := range kerneltest.Sized(20, 10) {
		loadKnown(t, kerneltest.SmallProgram("truth_small", int32(n), 0))
		o.filters = append(o.filters, attachClassic(t))
	}
	return o
}

// TestTruth uses one collector for all its subtests, because starting one takes long in a virtual
// machine. It first tests code that was loaded before the collector started, and then code that
// comes and goes.
func TestTruth(t *testing.T) {
	needTruth(t)
	o := loadOld(t, kerneltest.Sized(2000, 40))
	tr := startWhole(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *truth)
	}{
		{"Start", o.testStart},
		{"ManyPrograms", o.testManyPrograms},
		{"FilterBehindProgram", o.testFilters},
		{"Plain", testTruthPlain},
		{"FiltersAmongPrograms", testTruthFiltersAmongPrograms},
		{"FilterOfThread", testTruthFilterOfThread},
		{"Nameless", testTruthNameless},
		{"FirstBytes", testTruthFirstBytes},
		{"Trampolines", testTruthTrampolines},
		{"FilterBehindTrampoline", testTruthFilterBehindTrampoline},
		{"TrampolinesUnseen", testTruthTrampolinesUnseen},
		{"CPUs", testTruthCPUs},
		{"Stopped", testTruthStopped},
		{"Reload", testTruthReload},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, tr) })
	}
}

// testTruthPlain runs programs one after the other at addresses that are reused. It sends their
// samples while the program is loaded, after it is gone, or at the end. All frames must have the
// right name.
func testTruthPlain(t *testing.T, tr *truth) {
	s := tr.begin(t)
	addresses := make(map[uint64]bool)
	var last []knownRow
	rounds, samples := kerneltest.Sized(500, 30), kerneltest.Sized(40, 5)
	for n := range rounds {
		p := loadNth(t, n)
		addresses[p.code.Start] = true
		rows := s.run(p, "plain", samples)
		switch n % 3 {
		case 0:
			tr.send(rows)
			p.close(t)
		case 1:
			p.close(t)
			tr.send(rows)
		case 2:
			p.close(t)
			last = append(last, rows...)
		}
	}
	tr.send(last)
	tr.report()
	t.Logf("%d programs at %d addresses", rounds, len(addresses))
	if !kerneltest.OlderThan(t, 5, 18) { // before 5.18, programs have pages of their own
		assert.Less(t, len(addresses), rounds, "addresses are used again")
	}
	assert.GreaterOrEqual(t, tr.of("plain").right+tr.of("plain").unnamed, samples*rounds)
	tr.allNamed("plain")
}

// testManyPrograms verifies names if many programs were loaded before the collector started, and as
// many after that.
func (o old) testManyPrograms(t *testing.T, tr *truth) {
	s := tr.begin(t)
	samples := kerneltest.Sized(10, 3)
	var last []knownRow
	for n, before := range o.programs {
		p := loadNth(t, len(o.programs)+n)
		if n%2 == 0 {
			tr.send(append(s.run(p, "after, sent at once", samples), s.run(before, "before, sent at once", samples)...))
		} else {
			last = append(append(last, s.run(before, "before", samples)...), s.run(p, "after", samples)...)
		}
	}
	tr.send(last)
	tr.report()
	kinds := []string{"before", "after", "before, sent at once", "after, sent at once"}
	for _, kind := range kinds {
		v := tr.of(kind)
		assert.GreaterOrEqual(t, v.right+v.unnamed, samples*(len(o.programs)/2), kind)
	}
	tr.allNamed(kinds...)
	for _, p := range o.programs {
		p.close(t)
	}
}
