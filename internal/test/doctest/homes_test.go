// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/homes"
)

// A comment is a comment in product code.
type comment struct {
	file     string
	function string // the function whose doc comment it is, as in homes.Home; empty for any other
	text     string
	line     int
}

// readComments returns the comments of product code, except in tests and in package overviews.
func readComments(t *testing.T) (comments []comment) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == ".git" || name == "build" ||
			name == filepath.Join("internal", "test") || entry.Name() == "rewritetest") {
			return fs.SkipDir
		}
		if filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") && entry.Name() != "doc.go" {
			comments = append(comments, commentsOf(t, path, filepath.ToSlash(name))...)
		}
		return nil
	}))
	return comments
}

func commentsOf(t *testing.T, path, name string) (comments []comment) {
	t.Helper()
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	functions := make(map[*ast.CommentGroup]string)
	for _, decl := range parsed.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Doc != nil {
			functions[f.Doc] = homes.NameOf(f)
		}
	}
	for _, group := range parsed.Comments {
		if group == parsed.Doc {
			continue
		}
		var text strings.Builder
		for _, line := range group.List {
			text.WriteString(line.Text + "\n")
		}
		comments = append(comments, comment{name, functions[group], text.String(), files.Position(group.Pos()).Line})
	}
	return comments
}

// seeBefore matches the words before a citation that only refers to a rule.
var seeBefore = regexp.MustCompile(`(?i)\bsee(?:\s|//)*$`)

// claims returns the rules that a comment claims to decide: those it cites other than as "see
// contract N".
func claims(text string) (rules []string) {
	for _, at := range byName.FindAllStringIndex(text, -1) {
		if seeBefore.MatchString(text[:at[0]]) {
			continue
		}
		for _, n := range number.FindAllString(text[at[0]:at[1]], -1) {
			rules = append(rules, strings.TrimRight(n, "abc"))
		}
	}
	for _, at := range bySection.FindAllStringIndex(text, -1) {
		if match := text[at[0]:at[1]]; !strings.HasPrefix(match, "RFC") && !ofDWARF.MatchString(text[at[1]:]) {
			rules = append(rules, number.FindAllString(match, -1)...)
		}
	}
	return rules
}

// TestContractHomes verifies that each rule is decided in one place: the home that docs/contract.md names cites the
// rule, and no other code does, except as "see contract N".
func TestContractHomes(t *testing.T) {
	needRepository(t)
	all, err := homes.Read(root)
	require.NoError(t, err)
	assert.Len(t, all, 30)
	comments := readComments(t)
	isHome := func(h homes.Home, c comment) bool {
		return c.file == h.File && (h.Function == "" || c.function == h.Function)
	}
	ofRule := make(map[string]homes.Home)
	for _, h := range all {
		ofRule[h.Rule] = h
	}
	cited := make(map[string]bool)
	for _, c := range comments {
		for _, rule := range claims(c.text) {
			h, ok := ofRule[rule]
			switch {
			case !ok:
			case isHome(h, c):
				cited[rule] = true
			default:
				t.Errorf("%s:%d: contract %s is decided by %s; write \"see contract %s\"", c.file, c.line, rule, h, rule)
			}
		}
	}
	for _, h := range all {
		assert.True(t, cited[h.Rule], "contract %s: %s does not exist, or does not cite it", h.Rule, h)
	}
}

func TestClaimsAreFound(t *testing.T) {
	for text, want := range map[string][]string{
		"// looks up (contract 2.3).":                   {"2.3"},
		"// (contract 1.1b, 1.1c)":                      {"1.1", "1.1"},
		"// (see contract 2.3).":                        nil,
		"// For the flags, see\n// contract 4.4.":       nil,
		"// See contract 3.2 for the extent.":           nil,
		"// (contract\n// 10.1). See contract 5.":       {"10.1"},
		"// section 3.1 of the contract":                {"3.1"},
		"// section 3.1 of DWARF 5; the contract holds": nil,
	} {
		assert.Equal(t, want, claims(text), text)
	}
}
