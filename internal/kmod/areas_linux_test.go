// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// An area is a line of /proc/vmallocinfo: memory that was allocated in one piece.
type area struct {
	start, end uint64
	by         string // the function that allocated it
}

// readAreas reads /proc/vmallocinfo. A line is "0xSTART-0xEND SIZE CALLER+0x.../0x... ...".
func readAreas(t *testing.T) (all []area) {
	t.Helper()
	for line := range strings.Lines(string(readFile(t, "/proc/vmallocinfo"))) {
		var a area
		var size uint64
		_, err := fmt.Sscanf(line, "0x%x-0x%x %d %s", &a.start, &a.end, &size, &a.by)
		require.NoError(t, err, line)
		a.by, _, _ = strings.Cut(a.by, "+")
		all = append(all, a)
	}
	require.NotEmpty(t, all)
	require.NotZero(t, all[0].start, "addresses are hidden")
	return all
}

// TestModulesStayInTheirAreas compares the ranges of the modules' code in the table with the
// kernel's own list of memory: no range extends into any area other than the one of the module's
// text. A range can end beyond that area, where nothing lies. On Linux 7 modules share an area, and
// TestNoAddressIsInTheWrongModule verifies that they are not confused.
func TestModulesStayInTheirAreas(t *testing.T) {
	kerneltest.NeedModules(t)
	loadMany(t)
	table, all := runningTable(t), readAreas(t)
	modules := make(map[area]int)
	beyond := 0
	for _, m := range table.Loaded() {
		var in []area
		for _, a := range all {
			if a.start < m.End && m.Start < a.end {
				in = append(in, a)
			}
		}
		require.Len(t, in, 1, "%s at %#x-%#x", m.Name(), m.Start, m.End)
		assert.GreaterOrEqual(t, m.Start, in[0].start, m.Name())
		if m.End > in[0].end {
			beyond++
		}
		modules[in[0]]++
	}
	for a, n := range modules {
		assert.True(t, n == 1 || a.by != "load_module", "%d modules in one area of %s", n, a.by)
	}
	t.Logf("%d modules in %d areas, %d end beyond theirs", len(table.Loaded()), len(modules), beyond)
}
