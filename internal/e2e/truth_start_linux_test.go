// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// begun is what a collector writes when it has started, or started again.
const begun = "Everything is ready"

// TestTruthStart sends samples as soon as the collector has started (contract 6.2).
func TestTruthStart(t *testing.T) {
	needTruth(t)
	s := startSampler(t)
	programs := loadSome(t, 1<<20, 50)
	tr := startWhole(t)
	var rows []knownRow
	for _, p := range programs {
		rows = append(rows, s.run(p, "at the start", 10)...)
	}
	tr.send(rows)
	tr.report()
	before, _, _ := strings.Cut(tr.Log(), begun)
	if strings.Count(before, "Kernel symbols are up to date") < 3 {
		t.Skip("reading symbols took longer than a start waits: it is not tested that the first message has names")
	}
	tr.allNamed("at the start")
}

// TestTruthReload has a collector read its configuration again while programs come and go.
// Nothing is forgotten, and nothing missed (contract 6.4).
func TestTruthReload(t *testing.T) {
	needTruth(t)
	s := startSampler(t)
	stays := loadSome(t, 1<<20, 10)
	tr := startWhole(t)
	tr.waitUntilNamed(s, stays[9])
	sample := func(kind string, from int) (rows []knownRow) {
		for _, p := range stays {
			rows = append(rows, s.run(p, kind, 5)...)
		}
		return append(rows, churn(t, s, kind, from, 20)...)
	}
	rows := sample("before", 0)
	var history float64
	tr.eventually("programs that went are in the history", func() error {
		if history = tr.metric("history_entries"); history < 20 {
			return fmt.Errorf("it has %v", history)
		}
		return nil
	})

	require.NoError(t, tr.Reload())
	deadline := time.Now().Add(time.Minute)
	for n := 1; strings.Count(tr.Log(), begun) < 2; n++ {
		require.True(t, time.Now().Before(deadline), "the collector starts again")
		rows = append(rows, sample("meanwhile", n*100)...)
	}
	tr.eventually("messages are received again", func() error {
		return tr.client.Send(t.Context(), pprofile.NewProfiles())
	})
	assert.GreaterOrEqual(t, tr.metric("history_entries"), history)
	tr.send(append(rows, sample("after", 50)...))
	tr.report()
	kinds := []string{"before", "meanwhile", "after"}
	for _, kind := range kinds {
		v := tr.of(kind)
		assert.GreaterOrEqual(t, v.right+v.unnamed, 100, kind)
	}
	tr.allNamed(kinds...)
}
