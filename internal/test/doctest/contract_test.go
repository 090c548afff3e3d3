// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCitationsOfTheContract verifies that docs/contract.md has every rule that the code, its tests
// and the other pages cite by number.
func TestCitationsOfTheContract(t *testing.T) {
	needRepository(t)
	rules := readRules(t)
	cited := 0
	require.NoError(t, filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "build" || entry.Name() == "testdata"):
			return fs.SkipDir
		case entry.IsDir() || entry.Name() == "citations_test.go": // which has wrong ones
			return nil
		case filepath.Ext(file) != ".go" && filepath.Ext(file) != ".md":
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		all := citations(string(text))
		cited += len(all)
		for _, c := range unknown(all, rules) {
			t.Errorf("%s:%d: docs/contract.md has no rule %s", strings.TrimPrefix(file, root), c.line, c.rule)
		}
		return nil
	}))
	assert.NotZero(t, cited)
}

// The forms in which docs/contract.md numbers its sections, its rules and the items of rules.
var rule = regexp.MustCompile(`(?m)^(?:## (\d+)\. |### (\d+\.\d+) |- \*\*(\d+\.\d+[a-z])\*\* )`)

// readRules returns the numbers in docs/contract.md, in order.
func readRules(t *testing.T) (rules []string) {
	t.Helper()
	page, err := os.ReadFile(root + "docs/contract.md")
	require.NoError(t, err)
	for _, m := range rule.FindAllStringSubmatch(string(page), -1) {
		rules = append(rules, m[1]+m[2]+m[3])
	}
	return rules
}

// TestContractIsNumbered verifies that docs/contract.md numbers its sections, rules
// and items without a gap, so that none can vanish from the middle.
func TestContractIsNumbered(t *testing.T) {
	needRepository(t)
	rules := readRules(t)
	require.NotEmpty(t, rules)
	section, number, item := 0, 0, 'a'-1
	for _, got := range rules {
		_, rest, isRule := strings.Cut(got, ".")
		switch {
		case !isRule:
			section, number, item = section+1, 0, 'a'-1
			assert.Equal(t, strconv.Itoa(section), got)
		case strings.Trim(rest, "0123456789") == "":
			number, item = number+1, 'a'-1
			assert.Equal(t, strconv.Itoa(section)+"."+strconv.Itoa(number), got)
		default:
			item++
			assert.Equal(t, strconv.Itoa(section)+"."+strconv.Itoa(number)+string(item), got)
		}
	}
}
