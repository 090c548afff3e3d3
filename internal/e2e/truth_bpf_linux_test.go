// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
)

// needTruth skips the test where programs cannot be loaded and sampled, or no collector
// is built.
func needTruth(t *testing.T) {
	t.Helper()
	kerneltest.Built(t, kerneltest.Collector)
	kerneltest.NeedPerf(t)
	kerneltest.NeedBPF(t)
}

// TestTruthPlain runs programs one after the other at addresses that are used again.
// Their samples are sent while the program is there, when it is gone, and in the end.
// All frames have the right name.
func TestTruthPlain(t *testing.T) {
	needTruth(t)
	tr, s := startWhole(t), startSampler(t)
	first := loadNth(t, 1<<20)
	tr.waitUntilNamed(s, first)
	first.close(t)

	addresses := make(map[uint64]bool)
	var last []knownRow
	rounds := kerneltest.Sized(500, 30)
	for n := range rounds {
		p := loadNth(t, n)
		addresses[p.code.Start] = true
		rows := s.run(p, "plain", 40)
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
	if !kerneltest.OlderThan(t, 5, 18) { // before, programs have pages of their own
		assert.Less(t, len(addresses), rounds, "addresses are used again")
	}
	assert.GreaterOrEqual(t, tr.of("plain").right+tr.of("plain").unnamed, 40*rounds)
	tr.allNamed("plain")
}

// TestTruthManyPrograms has many programs that were there before the collector started,
// and many that came after.
func TestTruthManyPrograms(t *testing.T) {
	needTruth(t)
	s := startSampler(t)
	programs := kerneltest.Sized(2000, 80)
	before := make([]program, programs)
	for n := range before {
		before[n] = loadNth(t, n)
	}
	tr := startWhole(t)
	tr.waitUntilNamed(s, before[programs-1])
	var last []knownRow
	for n := range programs {
		p := loadNth(t, programs+n)
		if n%2 == 0 {
			tr.send(append(s.run(p, "after, sent at once", 10), s.run(before[n], "before, sent at once", 10)...))
		} else {
			last = append(append(last, s.run(before[n], "before", 10)...), s.run(p, "after", 10)...)
		}
	}
	tr.send(last)
	tr.report()
	kinds := []string{"before", "after", "before, sent at once", "after, sent at once"}
	for _, kind := range kinds {
		v := tr.of(kind)
		assert.GreaterOrEqual(t, v.right+v.unnamed, 5*programs, kind)
	}
	tr.allNamed(kinds...)
}

// metric returns the value of a metric of the source of BPF programs, or of all sources, 0
// if it has none.
func (tr *truth) metric(name string) (value float64) {
	tr.t.Helper()
	for _, line := range scrape(tr.t, tr.metrics) {
		if strings.HasPrefix(line, "otelcol_processor_kernelsym_"+name) &&
			(strings.Contains(line, `source="bpf"`) || !strings.Contains(line, `source="`)) {
			var err error
			value, err = strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:], 64)
			require.NoError(tr.t, err)
		}
	}
	return value
}
