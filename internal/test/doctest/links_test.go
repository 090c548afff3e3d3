// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLinks verifies that each link of a page to a file, a directory or a heading of this
// repository leads there.
func TestLinks(t *testing.T) {
	needRepository(t)
	pages := make(map[string]string)
	require.NoError(t, filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "build" || entry.Name() == "testdata"):
			return fs.SkipDir
		case filepath.Ext(file) == ".md":
			text, err := os.ReadFile(file)
			pages[filepath.Clean(file)] = string(text)
			return err
		}
		return nil
	}))
	total := 0
	for page, text := range pages {
		for _, link := range linksOf(text) {
			total++
			if err := follow(pages, page, link); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
	assert.NotZero(t, total)
}

// follow returns an error that says what is wrong with a link of a page.
func follow(pages map[string]string, page, link string) error {
	file, anchor, _ := strings.Cut(link, "#")
	target := page
	if inRepository := regexp.MustCompile(`^https://github\.com/kernelsym/kernelsym/(?:blob|tree)/main/`).FindString(file); inRepository != "" {
		target = filepath.Join(root, strings.TrimPrefix(file, inRepository))
	} else if file != "" {
		target = filepath.Join(filepath.Dir(page), file)
	}
	if _, err := os.Stat(target); err != nil {
		return fmt.Errorf("(%s): %w", link, err)
	}
	if text, isPage := pages[target]; anchor != "" && isPage && !anchorsOf(text)[anchor] {
		return fmt.Errorf("(%s): no such heading", link)
	}
	return nil
}

var (
	code   = regexp.MustCompile("(?s)(?:^|\n)```.*?\n```")
	inline = regexp.MustCompile("`[^`\n]*`")
	// [text](target), [name]: target
	linked  = regexp.MustCompile(`\]\(([^)\s]+)\)|(?m:^\[[^\]]+\]: (\S+)$)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	// The characters that GitHub drops from a heading to make its anchor.
	dropped = regexp.MustCompile(`[^\p{L}\p{N}\p{M} _-]`)
)

// linksOf returns the links of a page that lead to something in this repository.
func linksOf(page string) (links []string) {
	page = inline.ReplaceAllString(code.ReplaceAllString(page, ""), "")
	for _, m := range linked.FindAllStringSubmatch(page, -1) {
		link := m[1] + m[2]
		scheme, _, isURL := strings.Cut(link, ":")
		if !isURL || (scheme == "https" && regexp.MustCompile(`^https://github\.com/kernelsym/kernelsym/(blob|tree)/main/`).MatchString(link)) {
			links = append(links, link)
		}
	}
	return links
}

// anchorsOf returns the anchors of the headings of a page.
func anchorsOf(page string) map[string]bool {
	anchors := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(code.ReplaceAllString(page, ""), -1) {
		title := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(m[1], "$1")
		anchor := strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
		name := anchor
		for n := 1; anchors[name]; n++ {
			name = fmt.Sprintf("%s-%d", anchor, n)
		}
		anchors[name] = true
	}
	return anchors
}

func TestWrongLinksAreFound(t *testing.T) {
	needRepository(t)
	pages := map[string]string{
		"a.md": "# One `two`: three?\n\n## One\n\n## One\n\n```sh\n# no heading\n[no](link.md)\n```\n`[no](link.md)` [x](https://example.org)\n",
	}
	assert.Empty(t, linksOf(pages["a.md"]))
	assert.Equal(t, map[string]bool{"one-two-three": true, "one": true, "one-1": true}, anchorsOf(pages["a.md"]))
	assert.Equal(t, []string{"a.md#b", "c.md"}, linksOf("see [a\nb](a.md#b) and [c][c]\n\n[c]: c.md\n"))
	pages["links_test.go"] = pages["a.md"]
	require.NoError(t, follow(pages, "links_test.go", "#one-two-three"))
	require.NoError(t, follow(pages, "links_test.go", "../doctest"))
	require.NoError(t, follow(pages, "links_test.go", "https://github.com/kernelsym/kernelsym/blob/main/go.mod"))
	require.ErrorContains(t, follow(pages, "links_test.go", "#two"), "no such heading")
	require.ErrorIs(t, follow(pages, "links_test.go", "missing.md"), os.ErrNotExist)
	require.ErrorIs(t, follow(pages, "links_test.go", "https://github.com/kernelsym/kernelsym/blob/main/missing"), os.ErrNotExist)
}
