// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// TestForms compares the text and JSON output with files.
func TestForms(t *testing.T) {
	for name, m := range map[string]*machine{
		"healthy": machineWith(t, nil, fake{}),
		"bare": machineWith(t, map[string]string{
			"proc/self/status": withCapabilities(), "proc/kallsyms": hiddenList, "sys/kernel/notes": "-",
			"sys/kernel/security/lockdown": "-",
		}, fake{record: errPerf, list: errPrograms}),
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t.Context(), m)
			normalize(&r, m)
			var text, color, programs strings.Builder
			require.NoError(t, r.WriteText(printable.New(&text, false), Columns))
			require.NoError(t, r.WriteText(printable.New(&color, true), Columns))
			require.NoError(t, r.writeJSON(printable.New(&programs, false), newScrubber(nil)))
			golden(t, name+".txt", text.String())
			golden(t, name+".color.txt", color.String())
			golden(t, name+".json", programs.String())
			assert.NotContains(t, text.String(), "\x1b")
			var narrow strings.Builder
			require.NoError(t, r.WriteText(printable.New(&narrow, false), 80))
			for line := range strings.Lines(narrow.String()) {
				assert.True(t, len(line) <= 80 || len(strings.Fields(line)) <= 2, "%s could be broken", line)
			}
			assert.Equal(t, strings.Fields(text.String()), strings.Fields(narrow.String()))

			var back Report
			require.NoError(t, json.Unmarshal([]byte(programs.String()), &back))
			assert.Equal(t, r, back)
		})
	}
}

// normalize removes the parts that differ from run to run.
func normalize(r *Report, m *machine) {
	root := filepath.Dir(m.procfs)
	fix := func(s *string) {
		*s = strings.ReplaceAll(*s, root, "/host")
		if before, rest, ok := strings.Cut(*s, "read in "); ok {
			_, after, more := strings.Cut(rest, ";")
			*s = before + "read in 1ms"
			if more {
				*s += ";" + after
			}
		}
	}
	r.Details.Environment["versions"] = map[string]string{"kernelsym": m.version}
	for i := range r.Details.Sources {
		fix(&r.Details.Sources[i].Error)
		r.Details.Sources[i].Milliseconds, r.Details.Sources[i].Memory, r.Details.Sources[i].Blind = 1, 2, 0
	}
	fix(&r.Procfs)
	fix(&r.Sysfs)
	for i := range r.Findings {
		fix(&r.Findings[i].Found)
		for k := range r.Findings[i].Remedy {
			fix(&r.Findings[i].Remedy[k])
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, file)
}
