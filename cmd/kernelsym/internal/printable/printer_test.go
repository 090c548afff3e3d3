// SPDX-License-Identifier: Apache-2.0

package printable

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"text/tabwriter"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hostile is a name with a line break, and a sequence that sets the title of a terminal.
const hostile = "\x1b]0;title\x07\n\t\u202e\u009b\xff"

const replaced = r + "]0;title" + r + r + r + r + r + r

type stringer struct{}

func (stringer) String() string { return hostile }

// TestPrintf verifies that only the format controls the terminal, whatever the type of an argument and its verb.
func TestPrintf(t *testing.T) {
	for _, tt := range []struct {
		name, format string
		args         []any
		want         string
	}{
		{"format", "a\tb\n", nil, "a\tb\n"},
		{"string", "%s\n", []any{hostile}, replaced + "\n"},
		{"error", "%v\n", []any{errors.New(hostile)}, replaced + "\n"},
		{"method", "%s\n", []any{stringer{}}, replaced + "\n"},
		{"bytes", "%s\n", []any{[]byte(hostile)}, replaced + "\n"},
		{"list", "%v\n", []any{[]string{hostile}}, "[" + replaced + "]\n"},
		{"rune", "%c\n", []any{'\x1b'}, r + "\n"},
		{"quoted", "%q\n", []any{"\x1b"}, "\"\\x1b\"\n"},
		{"width", "%4s|%-4s|%-*s|%04x|%.1f\n", []any{"\n", "\n", 3, "\n", 10, 0.25}, "   " + r + "|" + r + "   |" + r + "  |000a|0.2\n"},
		{"painted", "%s%-3s%s\n", []any{Bold.Of(hostile), Red.Of("a"), Faint.Of("")}, replaced + "a  \n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, New(&out, false).Printf(tt.format, tt.args...))
			assert.Equal(t, tt.want, out.String())
		})
	}
	var out bytes.Buffer
	require.NoError(t, New(&out, true).Printf("%s%-3s%s\n", Bold.Of(hostile), Red.Of("a"), Faint.Of("")))
	assert.Equal(t, "\x1b[1m"+replaced+"\x1b[0m\x1b[31ma  \x1b[0m\n", out.String())
}

// TestTable verifies that a name ends no cell and no row of a table.
func TestTable(t *testing.T) {
	var out bytes.Buffer
	table := tabwriter.NewWriter(New(&out, true), 0, 0, 1, ' ', 0)
	require.NoError(t, New(table, false).Printf("%s\t%s\n", "a\tb\n", "c"))
	require.NoError(t, table.Flush())
	assert.Equal(t, "a"+r+"b"+r+" c\n", out.String())
}

func TestWrite(t *testing.T) {
	var out bytes.Buffer
	n, err := io.WriteString(New(&out, true), "Error:\tone\n\x1b]0;title\x07\rtwo\n")
	require.NoError(t, err)
	assert.Equal(t, 26, n)
	assert.Equal(t, "Error:\tone\n"+r+"]0;title"+r+r+"two\n", out.String())

	out.Reset()
	_, err = io.WriteString(NewMessages(&out, true), "Error: opening a\nError: b\n\n: not found\n")
	require.NoError(t, err)
	assert.Equal(t, "Error: opening a\n  Error: b\n\n  : not found\n", out.String())
}

// TestJSON verifies that other programs get names as they are.
func TestJSON(t *testing.T) {
	names := map[string]string{"<é>": hostile[:len(hostile)-1] + "\x7f\u2028\U000E0001"}
	for indent, want := range map[string]string{
		"":   `{"<é>":"\u001b]0;title\u0007\n\t\u202e\u009b\u007f\u2028\udb40\udc01"}` + "\n",
		"  ": "{\n" + `  "<é>": "\u001b]0;title\u0007\n\t\u202e\u009b\u007f\u2028\udb40\udc01"` + "\n}\n",
	} {
		var out bytes.Buffer
		require.NoError(t, New(&out, true).JSON(names, indent))
		assert.Equal(t, want, out.String())
		var back map[string]string
		require.NoError(t, json.Unmarshal(out.Bytes(), &back))
		assert.Equal(t, names, back)
	}
	assert.Error(t, New(io.Discard, false).JSON(func() {}, ""))
}

// TestBuffered verifies that there is one write, with the colors of the Printer.
func TestBuffered(t *testing.T) {
	writes := &writes{}
	require.NoError(t, New(writes, true).Buffered(func(out *Printer) {
		assert.NoError(t, out.Printf("%s ", Green.Of("a")))
		assert.NoError(t, out.Printf("b\n"))
	}))
	assert.Equal(t, []string{"\x1b[32ma\x1b[0m b\n"}, writes.all)
}

type writes struct{ all []string }

func (w *writes) Write(b []byte) (int, error) {
	w.all = append(w.all, string(b))
	return len(b), nil
}

// TestErrors verifies that an error of the writer is returned.
func TestErrors(t *testing.T) {
	broken, w := io.Pipe()
	require.NoError(t, broken.CloseWithError(errors.New("gone")))
	p := New(w, false)
	_, err := p.Write([]byte("x"))
	for _, err := range []error{err, p.Printf("x"), p.JSON("x", ""), p.Buffered(func(out *Printer) { _ = out.Printf("x") })} {
		assert.ErrorContains(t, err, "gone")
	}
}
