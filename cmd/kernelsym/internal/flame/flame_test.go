// SPDX-License-Identifier: Apache-2.0

package flame

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(m)
}

var update = flag.Bool("update", false, "write the golden files")

var (
	user    = Frame{"main", "app", "", User}
	syscall = Frame{"do_syscall_64", "vmlinux", "", Core}
	softirq = Frame{"do_softirq.part.0", "vmlinux", "", Core}
	inlined = Frame{"run_ksoftirqd (inlined)", "vmlinux", "", Core}
	ext4    = Frame{"ext4_file_read_iter", "ext4", "", Module}
	program = Frame{"bpf_prog_2e5a4300140595ee_shake", "[bpf]", "", BPF}
	unnamed = Frame{"[no name] vmlinux+0x1234", "vmlinux", "", Unnamed}
	rust    = Frame{`<[u8; 4] as "Copy">::&clone`, "rust", "", Module}
)

// example has each kind of code, and frames that are too narrow to be drawn or labeled.
func example() *Graph {
	g := new(Graph)
	g.Add([]Frame{user, syscall, softirq, inlined}, 40000)
	g.Add([]Frame{user, syscall, softirq}, 10000)
	g.Add([]Frame{user, syscall, ext4, program}, 30000)
	g.Add([]Frame{syscall, unnamed}, 15000)
	g.Add([]Frame{syscall, unnamed, rust}, 5000)
	g.Add([]Frame{syscall, rust}, 100)
	g.Add([]Frame{syscall, ext4}, 1)
	g.Add([]Frame{syscall, program}, 0)
	g.Add([]Frame{syscall, program}, -1)
	return g
}

var page = Page{Heading: `a "heading" & more`, Value: func(v int64) string { return fmt.Sprint(v, " samples") }}

// TestGolden compares the output with files.
func TestGolden(t *testing.T) {
	var svg, folded strings.Builder
	require.NoError(t, example().SVG(&svg, page))
	require.NoError(t, example().Folded(&folded))
	for name, got := range map[string]string{"testdata/example.svg": svg.String(), "testdata/example.folded": folded.String()} {
		if *update {
			require.NoError(t, os.WriteFile(name, []byte(got), 0o644))
		}
		want, err := os.ReadFile(name)
		require.NoError(t, err)
		assert.Equal(t, string(want), got, "%s: go test -update writes it", name)
	}
	checkXML(t, svg.String())
	for line := range strings.Lines(folded.String()) {
		name, _, _ := strings.Cut(line, "\n")
		assert.Regexp(t, `^[^;]+(;[^;]+)* [1-9]\d*$`, name)
	}
}

func checkXML(t *testing.T, document string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(document))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}

// TestEmpty verifies that a graph without stacks still makes a page.
func TestEmpty(t *testing.T) {
	var svg, folded strings.Builder
	require.NoError(t, new(Graph).SVG(&svg, page))
	checkXML(t, svg.String())
	assert.NotContains(t, svg.String(), "NaN")
	require.NoError(t, new(Graph).Folded(&folded))
	assert.Empty(t, folded.String())
}

// TestNamesOfAnyBytes verifies that no name breaks the page.
func TestNamesOfAnyBytes(t *testing.T) {
	g := new(Graph)
	g.Add([]Frame{{"]]></script><script>\x00\xff\n", "\x1b\"'", "]]>\"", Core}}, 1)
	var svg strings.Builder
	require.NoError(t, g.SVG(&svg, page))
	checkXML(t, svg.String())
	assert.Equal(t, 1, strings.Count(svg.String(), "<script>"))
}

func TestFit(t *testing.T) {
	const name = "do_softirq.part.0"
	assert.Equal(t, name, fit(name, 2*padding+charWidth*float64(len(name))+0.01))
	assert.Equal(t, "do_softirq.part…", fit(name, 2*padding+charWidth*float64(len(name)-1)+0.01), "what is left out is marked")
	assert.Equal(t, "do…", fit(name, 2*padding+charWidth*3+0.01))
	assert.Empty(t, fit(name, 2*padding+charWidth*3-0.01))
	assert.Equal(t, "ä", fit("ä", 2*padding+charWidth+0.01))
}

// TestPictureIsUpToDate verifies that the picture in the documents has the current style and
// script. `make picture` redraws it.
func TestPictureIsUpToDate(t *testing.T) {
	if kerneltest.InVM() {
		t.Skip("docs is not in the virtual machine")
	}
	picture, err := os.ReadFile("../../../../docs/flamegraph.svg")
	require.NoError(t, err)
	for _, part := range []string{style, script} {
		assert.True(t, strings.Contains(string(picture), part), "run `make picture`") //nolint:testifylint // a failure of Contains prints the picture
	}
}
