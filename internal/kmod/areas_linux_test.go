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

// area is a line of /proc/vmallocinfo: memory that was allocated at once.
type area struct {
	start, end uint64
	by         string // function that did it
}

// areas reads /proc/vmallocinfo: "0xSTART-0xEND SIZE CALLER+0x.../0x... ...".
func areas(t *testing.T) (all []area) {
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

// TestModulesStayInTheirAreas holds what the table takes for modules' code against
// the kernel's own list of memory: it reaches into no other area than that of the
// module's text. It can end behind that, where nothing is. On Linux 7 modules share
// an area, and it is TestNoAddressIsOfTheWrongModule that tells them apart.
func TestModulesStayInTheirAreas(t *testing.T) {
	kerneltest.NeedModules(t)
	loadMany(t)
	table, all := running(t), areas(t)
	modules := make(map[area]int)
	behind := 0
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
			behind++
		}
		modules[in[0]]++
	}
	for a, n := range modules {
		assert.True(t, n == 1 || a.by != "load_module", "%d modules in one area of %s", n, a.by)
	}
	t.Logf("%d modules in %d areas, %d end behind theirs", len(table.Loaded()), len(modules), behind)
}
