// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/translator/pprof"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// requireTranslated translates a message to pprof and requires that the profile is valid and has
// each event with the names of all its frames.
func requireTranslated(t *testing.T, pd pprofile.Profiles) {
	t.Helper()
	p, err := pprof.ConvertPprofileToPprof(&pd)
	require.NoError(t, err)
	require.NoError(t, p.CheckValid())
	var got []string
	for _, s := range p.Sample {
		var names []string
		for _, loc := range s.Location {
			functions := []string{}
			for _, l := range loc.Line {
				functions = append(functions, l.Function.Name)
			}
			names = append(names, fmt.Sprint(functions))
		}
		require.Len(t, s.Value, 1)
		for range s.Value[0] {
			got = append(got, strings.Join(names, " "))
		}
	}
	slices.Sort(got)
	require.NotEmpty(t, got)
	require.Equal(t, stacksOf(pd), got)
}
