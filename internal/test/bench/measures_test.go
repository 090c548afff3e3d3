// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reports returns the names of the figures that the code reports: complete names, and the ends of
// names that it puts together.
func reports(t *testing.T) (names, ends []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if f, ok := call.Fun.(*ast.Ident); !ok || f.Name != "report" {
				return true
			}
			argument, all := call.Args[0], &names
			if sum, ok := argument.(*ast.BinaryExpr); ok {
				argument, all = sum.Y, &ends
			}
			text, err := strconv.Unquote(argument.(*ast.BasicLit).Value)
			require.NoError(t, err)
			*all = append(*all, text)
			return true
		})
	}
	return names, ends
}

// TestMeasuresAreDescribed verifies that each figure has a description, and that each description
// belongs to a figure. The program itself fails for a figure without one.
func TestMeasuresAreDescribed(t *testing.T) {
	names, ends := reports(t)
	require.NotEmpty(t, names)
	require.NotEmpty(t, ends)
	for _, name := range names {
		assert.Contains(t, measures, name)
	}
	described := make(map[string]bool)
	for name, m := range measures {
		assert.True(t, slices.Contains(names, name) ||
			slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(name, end) }), "nothing reports %s", name)
		assert.NotEmpty(t, m.than, name)
		assert.False(t, described[m.what+m.than], "%s is described like another figure", name)
		described[m.what+m.than] = true
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, writeTable(&out, []figure{{"rewrite_vs_codec", 0.3}, {"wakeups_idle", 1.96}, {"start_ms", 52.84}}))
	var lines [][]string
	for line := range strings.Lines(strings.TrimSpace(out.String())) {
		lines = append(lines, strings.Fields(line))
	}
	assert.Equal(t, [][]string{
		strings.Fields("WHAT FIGURE GOAL COMPARED TO, OR UNIT NAME"),
		strings.Fields("time to name a message, 6,000 kernel frames 0.3 ≤ 0.25 missed decoding and encoding the message rewrite_vs_codec"),
		strings.Fields("wakeups of all threads when nothing happens 1.96 ≤ 2 a second wakeups_idle"),
		strings.Fields("time until a processor has started 52.84 ms start_ms"),
	}, lines)
	assert.ErrorContains(t, writeTable(&out, []figure{{"new_figure", 1}}), "new_figure")
}

// TestScale verifies that figures are read from the output of a test. A missing figure is an error,
// unless all are missing because the test was skipped.
func TestScale(t *testing.T) {
	before := reported
	defer func() { reported = before }()
	file := filepath.Join(t.TempDir(), "bench.log")
	write := func(lines ...string) error {
		require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600))
		reported = nil
		return benchScale(file)
	}
	require.NoError(t, write("--- SKIP: TestManyCPUs (0.00s)", "ok"))
	assert.Empty(t, reported)
	require.ErrorContains(t, write("bench node256_open_files 259"), "node256_drain_us")
	require.Error(t, write("bench node256_open_files many"))
	names, _ := reports(t)
	var lines []string
	for _, name := range names {
		if strings.HasPrefix(name, "node256_") {
			lines = append(lines, "bench "+name+" 1.5")
		}
	}
	require.NoError(t, write(lines...))
	assert.Len(t, reported, len(lines))
}
