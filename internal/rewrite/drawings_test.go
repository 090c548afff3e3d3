// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// TestContract_5_5_Drawings verifies the drawings in testdata/split. A new file there is a new test. A column is half a
// second. Lines that begin with # are comments. First, the drawing has the history and the samples of a message:
//
//	P:    the functions that had the address P, a letter each; a dot where there was none
//	PQ    a sample with the stack P, Q, leaf first; an x for each of its timestamps
//
// After a line of dashes, it has the samples of the message that comes out, in their order, with the names in their stacks: a
// dash for none.
func TestContract_5_5_Drawings(t *testing.T) {
	files, err := filepath.Glob("testdata/split/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			came, want, ok := strings.Cut(string(text), "\n---")
			require.True(t, ok, "no line of dashes")
			_, want, _ = strings.Cut(want, "\n")
			assert.Equal(t, want, drawn(rewriteDrawing(t, came)))
		})
	}
}

const (
	margin      = 8 // of the rows' names
	column      = 500 * ms
	firstColumn = nowBoot - 60_000*ms
)

// rewriteDrawing rewrites the message of a drawing, with its history.
func rewriteDrawing(t *testing.T, came string) []rewritetest.Sample {
	t.Helper()
	functions := timeline.NewBuilder(remember)
	m := rewritetest.NewMessage().Profile(nil, "")
	for line := range strings.Lines(came) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		name, row := strings.TrimSpace(line[:margin]), line[margin:]
		if address, isHistory := strings.CutSuffix(name, ":"); isHistory {
			drawHistory(functions, drawnAddress(address[0]), row)
		} else {
			drawSample(m, name, row)
		}
	}
	got, _ := rewriteTimed(t, withHistory, m, knownAt(t, functions))
	return got
}

func drawnAddress(letter byte) uint64 { return slot + uint64(letter)<<12 }

func drawHistory(functions *timeline.Builder, address uint64, row string) {
	for from := 0; from < len(row); {
		to := from + len(row[from:]) - len(strings.TrimLeft(row[from:], row[from:from+1]))
		if row[from] != '.' {
			loaded := loadAt(functions, row[from:from+1], address, 0x100, firstColumn+int64(from)*column)
			functions.Unload(loaded, firstColumn+int64(to)*column)
		}
		from = to
	}
}

func drawSample(m *rewritetest.Message, stack, row string) {
	var frames []Frame
	for _, address := range []byte(stack) {
		frames = append(frames, Frame{Address: drawnAddress(address) + 8, Type: "kernel"})
	}
	var at []int64
	for c, mark := range row {
		if mark == 'x' {
			at = append(at, firstColumn+int64(c)*column+column/2)
		}
	}
	m.Sample(frames...)
	timed(m, at...)
}

// drawn draws samples.
func drawn(samples []rewritetest.Sample) string {
	var out strings.Builder
	for i, names := range stackNames(samples) {
		var row []byte
		for _, stamp := range samples[i].Timestamps {
			c := int((int64(stamp) - bootUnix - firstColumn) / column)
			row = append(row, slices.Repeat([]byte(" "), max(0, c+1-len(row)))...)
			row[c] = 'x'
		}
		var stack strings.Builder
		for _, name := range names {
			stack.WriteString(cmp.Or(name, "-"))
		}
		fmt.Fprintf(&out, "%-*s%s\n", margin, stack.String(), row)
	}
	return out.String()
}
