// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestRemediesParse verifies that the commands which doctor recommends are commands of the tool.
func TestRemediesParse(t *testing.T) {
	if kerneltest.InVM() {
		t.Skip("the code is not in the virtual machine")
	}
	files, err := filepath.Glob("internal/doctor/*.go")
	require.NoError(t, err)
	command := regexp.MustCompile(`(?:^|: )((?:sudo )?kernelsym .*)`)
	n := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(f, func(node ast.Node) bool {
			text, ok := textOf(node)
			if m := command.FindStringSubmatch(text); ok && m != nil {
				n += assertParses(t, m[1])
			}
			return !ok
		})
	}
	assert.GreaterOrEqual(t, n, 3)
}

// textOf returns the text of a string literal, or of a concatenation of strings. X replaces the
// parts that are not literals.
func textOf(node ast.Node) (text string, ok bool) {
	switch n := node.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(n.Value)
		return text, n.Kind == token.STRING && err == nil
	case *ast.BinaryExpr:
		x, xOK := textOf(n.X)
		y, yOK := textOf(n.Y)
		return x + y, n.Op == token.ADD && (xOK || yOK)
	}
	return "X", false
}

// TestPagesParse verifies that the tool's commands on the pages exist: commands to copy with their
// arguments, and commands in sentences with their flags.
func TestPagesParse(t *testing.T) {
	if kerneltest.InVM() {
		t.Skip("the docs are not in the virtual machine")
	}
	pages := []string{"../../README.md", "../../deploy/README.md", "../../SECURITY.md"}
	for _, pattern := range []string{"../../docs/*.md", "../../docs/platforms/*.md"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		pages = append(pages, files...)
	}
	inSentence := regexp.MustCompile("`(?:sudo )?kernelsym ([a-z][^`\n]*)`")
	found := make(map[string]int)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, block := range blocksOf(string(text), "sh") {
			found[page] += assertParses(t, block)
		}
		for _, m := range inSentence.FindAllStringSubmatch(string(text), -1) {
			found[page]++
			assertFlags(t, strings.Fields(m[1]), page+": "+m[0])
		}
	}
	for _, page := range []string{"README", "docs/packs", "docs/faq", "docs/troubleshooting"} {
		assert.Positive(t, found["../../"+page+".md"], page)
	}
}

// assertFlags verifies that a command exists and has the flags, whose values may be missing.
func assertFlags(t *testing.T, args []string, where string) {
	t.Helper()
	root := newCommand()
	root.InitDefaultCompletionCmd()
	cmd, rest, err := root.Find(args)
	require.NoError(t, err, where)
	for _, arg := range rest {
		if name, ok := strings.CutPrefix(arg, "--"); ok {
			assert.NotNil(t, cmd.Flags().Lookup(name), where)
		} else if len(arg) == 2 && arg[0] == '-' {
			assert.NotNil(t, cmd.Flags().ShorthandLookup(arg[1:]), where)
		}
	}
}
