// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/ledger"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// TestDrawings verifies the drawings in testdata. A new file there is a new test. A column is 10 ms, and the first one begins
// at 100 ms. Lines that begin with # are comments. First, the drawing has what the ledger is told, in rows of these names:
//
//	load    a letter: the event of the load of that image, at an address of its own. No list covers a capital one
//	unload  a letter: the event of its unload
//	lost    x: events may be lost. A ! is where the loss is reported; without it, that is where the loss ends
//	list    [ab]: a list, from its beginning to where it was read, with the images that it shows
//
// After a line of dashes, it has what the table says of each address, in a row with the name of its image: a letter is the
// image that has the address, a dot says that none has, and a question mark that it is not known.
func TestDrawings(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			told, says, ok := strings.Cut(string(text), "\n---")
			require.True(t, ok, "no line of dashes")
			_, says, _ = strings.Cut(says, "\n")
			assert.Equal(t, says, newDrawing(t, told).table(says))
		})
	}
}

// A drawing has the rows of what a ledger is told, by their names.
type drawing map[string]string

const (
	margin = 8 // of the rows' names
	column = 10 * ms
)

func newDrawing(t *testing.T, told string) drawing {
	t.Helper()
	d := make(drawing)
	for line := range strings.Lines(told) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		name, row := strings.TrimSpace(line[:min(margin, len(line))]), line[min(margin, len(line)):]
		require.Contains(t, []string{"load", "unload", "lost", "list"}, name)
		d[name] = row
	}
	return d
}

// at returns what a row has in a column.
func (d drawing) at(row string, c int) byte {
	if c < 0 || c >= len(d[row]) {
		return ' '
	}
	return d[row][c]
}

// timeOf returns when a column begins.
func timeOf(c int) int64 { return 100*ms + int64(c)*column }

// imageOf returns an image, loaded since an instant.
func imageOf(letter byte, since int64) *timeline.Image {
	id := uint32(letter)
	if letter < 'a' {
		id = 0
	}
	return function(string(letter), addressOf(letter), id, since)
}

func addressOf(letter byte) uint64 { return uint64(letter) << 12 }

// ledger returns the ledger that was told everything up to the end of a column.
func (d drawing) ledger(end int) *ledger.Ledger {
	l := newLedger()
	began := 0 // of the list that is being read
	for c := range end + 1 {
		now := timeOf(c)
		if letter := d.at("load", c); letter != ' ' {
			l.Loaded(imageOf(letter, now))
		}
		if letter := d.at("unload", c); letter != ' ' {
			l.Unloaded(addressOf(letter), now)
		}
		l.Missed(d.reported(c)...)
		switch d.at("list", c) {
		case '[':
			began = c
			l.BeginList()
		case ']':
			d.endList(l, d["list"][began+1:c], timeOf(began), now)
		}
		l.Complete(now)
	}
	return l
}

// reported returns the loss that is reported in a column.
func (d drawing) reported(c int) []timeline.Interval {
	row := d["lost"] + " "
	if c >= len(row) {
		return nil
	}
	last := strings.LastIndexByte(row[:c], 'x')
	isLate := strings.HasPrefix(strings.TrimLeft(row[c:], " "), "!")
	if row[c] != '!' && (row[c] == 'x' || last != c-1 || isLate) || last < 0 {
		return nil
	}
	first := last
	for d.at("lost", first-1) == 'x' {
		first--
	}
	return []timeline.Interval{{From: timeOf(first), To: timeOf(last + 1)}}
}

// endList ends a list. The images that only the list shows are loaded from then on, as far as anybody knows.
func (d drawing) endList(l *ledger.Ledger, shown string, began, read int64) {
	var ids []uint32
	for _, letter := range []byte(shown) {
		ids = append(ids, uint32(letter))
	}
	if !l.EndList(listOf(began, read, ids...)) {
		return
	}
	for _, letter := range []byte(shown) {
		if letter != ' ' && l.At(addressOf(letter)) == nil {
			l.Loaded(imageOf(letter, read))
		}
	}
}

// table returns what the table says at the end, in the form and for the addresses of a drawing's last part.
func (d drawing) table(like string) string {
	columns := strings.IndexByte(like, '\n') - margin
	l := d.ledger(columns)
	signs := map[string]string{timeline.ReasonUnresolved.String(): ".", timeline.ReasonUnobserved.String(): "?"}
	var out strings.Builder
	for line := range strings.Lines(like) {
		fmt.Fprintf(&out, "%-*s", margin, line[:1])
		for c := range columns {
			name := nameAt(l, addressOf(line[0]), timeOf(c)+column/2)
			if sign, ok := signs[name]; ok {
				name = sign
			}
			out.WriteString(name)
		}
		out.WriteString("\n")
	}
	return out.String()
}
