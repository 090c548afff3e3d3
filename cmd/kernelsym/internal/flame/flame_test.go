// SPDX-License-Identifier: Apache-2.0

package flame

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode"

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

// TestNamesOfAnyBytes verifies that no text in a profile breaks the page, or turns the direction of writing.
func TestNamesOfAnyBytes(t *testing.T) {
	const hostile = "]]></title></script><script>\x00\xff\n\u0085\u009b\u061c\u200e\u200f\u202e\u2066\u2069\"'<!--"
	g := new(Graph)
	g.Add([]Frame{{hostile, hostile, hostile, Core}}, 1)
	p := Page{
		Heading: hostile, Value: func(int64) string { return "1 " + hostile },
		Filters: []Filter{{Name: hostile, Plural: hostile, Values: []string{hostile}, Selected: hostile}},
	}
	for name, write := range map[string]func(io.Writer, Page) error{"SVG": g.SVG, "HTML": g.HTML} {
		var page strings.Builder
		require.NoError(t, write(&page, p))
		text := page.String()
		_, svg, _ := strings.Cut(text, "<svg ")
		svg, _, _ = strings.Cut("<svg "+svg, "</body>")
		checkXML(t, svg)
		assert.Equal(t, 1, strings.Count(text, "<script>"), name)
		assert.NotContains(t, text, "<!--", name)
		assert.Equal(t, -1, strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }), name)
	}
}

// TestContentPolicy verifies that the policy allows each style and the script of the page, and no other.
func TestContentPolicy(t *testing.T) {
	var html strings.Builder
	require.NoError(t, example().HTML(&html, page))
	styles := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindAllStringSubmatch(html.String(), -1)
	scripts := regexp.MustCompile(`(?s)<script><!\[CDATA\[(.*?)\]\]></script>`).FindAllStringSubmatch(html.String(), -1)
	require.Len(t, styles, 2)
	require.Len(t, scripts, 1)
	assert.Equal(t, "default-src 'none'; script-src "+hashOf(scripts[0][1])+"; style-src "+hashOf(styles[0][1])+" "+hashOf(styles[1][1])+
		"; frame-ancestors 'none'", ContentPolicy)
	assert.Equal(t, "'sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0='", hashOf("abc"))
}

func TestFit(t *testing.T) {
	const name = "do_softirq.part.0"
	assert.Equal(t, name, fit(name, 2*padding+charWidth*float64(len(name))+0.01))
	assert.Equal(t, "do_softirq.part…", fit(name, 2*padding+charWidth*float64(len(name)-1)+0.01), "the omitted part is marked")
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
