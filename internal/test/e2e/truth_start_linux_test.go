// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

// begun is the message that a collector logs when it has started, or started again.
const begun = "Everything is ready"

// testStart verifies the names in samples that are sent as soon as the collector has started
// (contract 6.2).
func (o old) testStart(t *testing.T, tr *truth) {
	tr.forTest(t)
	tr.count()
	s := startSampler(t)
	var rows []knownRow
	for _, p := range o.programs[:kerneltest.Sized(50, 10)] {
		rows = append(rows, s.run(p, "at the start", kerneltest.Sized(10, 3))...)
	}
	tr.send(rows)
	tr.report()
	before, _, _ := strings.Cut(tr.Log(), begun)
	if strings.Count(before, "Kernel symbols are up to date") < 3 {
		t.Skip("reading symbols took longer than a start waits: it is not tested that the first message has names")
	}
	tr.allNamed("at the start")
}

// testTruthReload has a collector read its configuration again while programs come and go. It
// verifies that nothing is forgotten, and nothing missed (contract 6.4).
func testTruthReload(t *testing.T, tr *truth) {
	s := tr.begin(t)
	stays := loadSome(t, 1<<21, kerneltest.Sized(10, 4))
	come := kerneltest.Sized(20, 6)
	tr.waitUntilNamed(s, stays[0])
	sample := func(kind string, from int) (rows []knownRow) {
		for _, p := range stays {
			rows = append(rows, s.run(p, kind, 5)...)
		}
		return append(rows, churn(t, s, kind, from, come)...)
	}
	rows := sample("before", 0)
	tr.waitUntilNamed(s, stays[0]) // the collector has seen that programs were unloaded

	tr.checkLosses()
	require.NoError(t, tr.Reload())
	deadline := time.Now().Add(5 * otelcol.Patience) // long enough to sample as well
	for n := 1; n == 1 || strings.Count(tr.Log(), begun) < 2; n++ {
		require.True(t, time.Now().Before(deadline), "the collector starts again")
		rows = append(rows, sample("meanwhile", n*100)...)
	}
	tr.eventually("messages are received again", func() error {
		return tr.client.Send(t.Context(), pprofile.NewProfiles())
	})
	tr.send(append(rows, sample("after", 50)...))
	tr.report()
	kinds := []string{"before", "meanwhile", "after"}
	for _, kind := range kinds {
		v := tr.of(kind)
		assert.GreaterOrEqual(t, v.right+v.unnamed, 5*(len(stays)+come), kind)
	}
	tr.allNamed(kinds...)
}
