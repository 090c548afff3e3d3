// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/procname"
)

var errPipe = errors.New("broken pipe")

// brokenPipe is a pipe without a reader.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errPipe }

func TestEndsWhenNobodyReads(t *testing.T) {
	w := watcher{printer: printer{out: printable.New(brokenPipe{}, false)}}
	assert.True(t, w.print(nil, 0, 0))
	assert.False(t, w.print([]change{{}}, 0, 0))
	assert.ErrorIs(t, w.failed, errPipe)
}

// TestTable verifies that the longest name fits into 80 columns, and prints changes with as little information as possible.
func TestTable(t *testing.T) {
	var out strings.Builder
	p := printer{out: printable.New(&out, false)}
	require.NoError(t, p.begin())
	require.NoError(t, p.print(&change{Event: eventUnload, Kind: "module", Address: 0xffffffffc0000000, Bytes: 4096, Name: "veth"}))
	require.NoError(t, p.print(&change{
		Event: eventLoad, Name: "bpf_prog_0123456789abcdef_" + strings.Repeat("n", 15), Process: &procname.Process{PID: 12345, Name: strings.Repeat("p", 15)},
	}))
	require.NoError(t, p.print(&change{Event: eventLoad, Kind: "ool", Process: &procname.Process{PID: 7}}))
	assert.Equal(t, `
TIME     EVENT  PROCESS                NAME
00:00:00 unload -                      veth
00:00:00 load   ppppppppppppppp[12345] bpf_prog_0123456789abcdef_nnnnnnnnnnnnnnn
00:00:00 load   7                      [no name]
`, "\n"+out.String())
	for line := range strings.Lines(out.String()) {
		assert.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), 80)
	}
	out.Reset()
	p.out = printable.New(&out, true)
	require.NoError(t, p.print(&change{Event: eventLoad, Name: "f"}))
	assert.Equal(t, "00:00:00 \x1b[32mload  \x1b[0m -                      f\n", out.String())
}

// TestHostileNames verifies that the names of a process and its code neither control the terminal nor begin a line, and that
// JSON escapes them.
func TestHostileNames(t *testing.T) {
	const hostileLines = "a\x1b]0;pwned\x07\x7f\u009b31m\u202e\u2066\r\u0085\nforged\t1\n"
	harmless := func(printed string) {
		assert.Contains(t, printed, "pwned")
		assert.Equal(t, -1, strings.IndexFunc(printed, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }), "%q", printed)
	}
	c := change{Event: eventLoad, Kind: "module", Name: hostileLines, Process: &procname.Process{PID: 1, Name: hostileLines}}
	var text, forPrograms strings.Builder
	require.NoError(t, printer{printable.New(&text, false), false}.print(&c))
	harmless(text.String())
	assert.Equal(t, 1, strings.Count(text.String(), "\n"))
	require.NoError(t, printer{printable.New(&forPrograms, false), true}.print(&c))
	harmless(forPrograms.String())
	var back change
	require.NoError(t, json.Unmarshal([]byte(forPrograms.String()), &struct{ Name *string }{&back.Name}))
	assert.Equal(t, hostileLines, back.Name)
}
