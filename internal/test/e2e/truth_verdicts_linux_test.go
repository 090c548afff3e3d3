// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// begin prepares a collector for a test, and waits until it follows programs. It returns a sampler.
// When the test ends, everything it has sent is forgotten.
func (tr *truth) begin(t *testing.T) *sampler {
	t.Helper()
	tr.forTest(t)
	s := startSampler(t)
	tr.waitUntilFollowed(s, loadNth(t, 1<<20))
	tr.count()
	return s
}

// waitUntilFollowed waits until a program has its name and the kernel has reported what it lost
// before, which it does with the next record of each CPU.
func (tr *truth) waitUntilFollowed(s *sampler, p program) {
	tr.t.Helper()
	tr.waitUntilNamed(s, p)
	for cpu := range runtime.NumCPU() {
		pin(cpu) // if it is online
		loadNth(tr.t, cpu).close(tr.t)
	}
	anyCPU(tr.t)
	tr.waitUntilNamed(s, p)
}

// forTest attributes everything that follows to another test, until that test ends.
func (tr *truth) forTest(t *testing.T) {
	t.Helper()
	was := tr.t
	reset := func(t *testing.T) {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.t, tr.wrong, tr.disturbed = t, nil, ""
		clear(tr.sent)
		clear(tr.verdicts)
	}
	reset(t)
	t.Cleanup(func() {
		tr.mu.Lock()
		assert.Empty(t, tr.wrong) // even if the test was skipped
		tr.mu.Unlock()
		reset(was)
	})
}

// While these metrics grow, frames may have no names.
var disturbing = []string{"lost_records", "blind_time"}

// count records how much was lost so far.
func (tr *truth) count() {
	tr.t.Helper()
	for _, name := range disturbing {
		tr.counted[name] = tr.metric(name)
	}
}

// checkLosses records whether anything was lost since count was called, because other tests load
// many programs, too. All messages must have come out.
func (tr *truth) checkLosses() {
	tr.t.Helper()
	for _, name := range disturbing {
		is := tr.metric(name)
		if is < tr.counted[name] {
			tr.counted[name] = 0 // the collector has restarted
		}
		if more := is - tr.counted[name]; more > 0 {
			tr.disturbed = fmt.Sprintf("%s is %v more", name, more)
		}
	}
}

// allNamed requires that all frames of some kinds have their names, unless records were lost.
func (tr *truth) allNamed(kinds ...string) {
	tr.t.Helper()
	if tr.checkLosses(); tr.disturbed != "" {
		kerneltest.Figure("truth: %s: frames may have no names: %s", tr.t.Name(), tr.disturbed)
		return
	}
	for _, kind := range kinds {
		assert.Zero(tr.t, tr.of(kind).unnamed, kind)
	}
}

// settle waits until all messages have come out.
func (tr *truth) settle() {
	tr.t.Helper()
	tr.eventually("all messages come out", func() error {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		if n := len(tr.sent); n > 0 {
			return fmt.Errorf("%d have not", n)
		}
		return nil
	})
}

// of returns what became of the frames of a kind.
func (tr *truth) of(kind string) verdict {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if v := tr.verdicts[kind]; v != nil {
		return *v
	}
	return verdict{}
}

// report waits for all messages, prints the verdicts and requires that no name is wrong.
func (tr *truth) report() {
	tr.t.Helper()
	tr.settle()
	for _, kind := range slices.Sorted(maps.Keys(tr.verdicts)) {
		kerneltest.Figure("truth: %s: %s: %v", tr.t.Name(), kind, tr.of(kind))
		assert.Zero(tr.t, tr.of(kind).wrong, kind)
	}
	for _, wrong := range tr.wrong {
		tr.t.Log(wrong)
	}
}

// waitUntilNamed runs a program until one of its samples comes out with its name, at once or later.
// By then, earlier messages have come out.
func (tr *truth) waitUntilNamed(s *sampler, p program) {
	tr.t.Helper()
	kind := "until " + p.symbol + " is named"
	var rows []knownRow
	tr.eventually(p.symbol+" is named", func() error {
		const tries = 20
		rows = append(rows[max(0, len(rows)-tries):], s.run(p, kind, 1)[0])
		tr.send(slices.Clone(rows))
		tr.settle()
		if tr.of(kind).right == 0 {
			return errors.New("it has no name")
		}
		return nil
	})
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if v := tr.verdicts[kind]; v.wrong == 0 {
		delete(tr.verdicts, kind)
	}
}

// metric returns the value of a metric of the source of BPF programs, or of a metric without a
// source. It returns 0 if there is none.
func (tr *truth) metric(name string) (value float64) {
	tr.t.Helper()
	var lines []string
	tr.eventually("the metrics can be read", func() (err error) {
		lines, err = tryScrape(tr.t, tr.metrics)
		return err
	})
	for _, line := range lines {
		if strings.HasPrefix(line, "otelcol_processor_kernelsym_"+name) &&
			(strings.Contains(line, `source="bpf"`) || !strings.Contains(line, `source="`)) {
			var err error
			value, err = strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:], 64)
			require.NoError(tr.t, err)
		}
	}
	return value
}

// unlessBlind returns samples that were taken while the blind time was still the value before. If
// it has grown since then, because other tests load programs, too, the samples get another kind.
func (tr *truth) unlessBlind(rows []knownRow, before float64) []knownRow {
	tr.t.Helper()
	tr.send(labeled("sent twice", rows[:1])) // makes the source read records
	tr.settle()
	if tr.metric("blind_time") == before {
		return rows
	}
	for i := range rows {
		for k := range rows[i].known {
			rows[i].known[k].kind = "disturbed"
		}
	}
	return rows
}
