// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A citation is the number of a rule of the contract, and the line that cites it.
type citation struct {
	rule string
	line int
}

// Parts of the expressions below. A citation can continue in the next line of a comment.
const (
	gap  = `(?:\s|//)+`
	more = `(?:,|,?` + gap + `(?:and|or|to)|–)(?:\s|//)*` // between two numbers
	num  = `\d+(?:\.\d+)*(?:[a-z]\b)?`
	sub  = `\d+(?:\.\d+)+(?:[a-z]\b)?`
)

var (
	// "section 5.2 of the contract", "rules 3.1 to 3.3"; also sections of an RFC.
	bySection = regexp.MustCompile(`(RFC` + gap + `\d+,` + gap + `)?\b(?i:section|rule)s?` + gap + num + `(?:` + more + num + `)*`)
	// The words after a section of the DWARF standard.
	ofDWARF = regexp.MustCompile(`^` + gap + `of` + gap + `DWARF\b`)
	// "contract 5.2", "contract 5.1 and 5.2". A number without a point after that is not a
	// citation: "contract 5.2, 3 of them".
	byName = regexp.MustCompile(`\b(?i:contract)` + gap + num + `(?:` + more + sub + `)*`)
	// The name of a test: TestContract_4_6_NothingToDo, TestContract_7_Defaults.
	byTest = regexp.MustCompile(`\bTestContract_(\d+(?:_\d+)?)`)

	number = regexp.MustCompile(num)
)

// citations returns the citations of the contract in a text, one form after the other.
func citations(text string) (all []citation) {
	for _, form := range []struct {
		*regexp.Regexp
		words []string // a match has one of these words; most files have none
	}{{bySection, []string{"ection", "ule"}}, {byName, []string{"ontract"}}} {
		if !slices.ContainsFunc(form.words, func(word string) bool { return strings.Contains(text, word) }) {
			continue
		}
		for _, at := range form.FindAllStringIndex(text, -1) {
			match := text[at[0]:at[1]]
			if strings.HasPrefix(match, "RFC") || ofDWARF.MatchString(text[at[1]:]) {
				continue
			}
			for _, n := range number.FindAllStringIndex(match, -1) {
				all = append(all, citation{match[n[0]:n[1]], lineOf(text, at[0]+n[0])})
			}
		}
	}
	for _, at := range byTest.FindAllStringSubmatchIndex(text, -1) {
		all = append(all, citation{strings.ReplaceAll(text[at[2]:at[3]], "_", "."), lineOf(text, at[0])})
	}
	return all
}

// lineOf returns the number of the line that has the byte at an offset.
func lineOf(text string, offset int) int { return 1 + strings.Count(text[:offset], "\n") }

// unknown returns the citations of rules that do not exist.
func unknown(all []citation, rules []string) []citation {
	return slices.DeleteFunc(slices.Clone(all), func(c citation) bool { return slices.Contains(rules, c.rule) })
}

func TestCitationsAreFound(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []citation
	}{
		{"// by section 5.2 of the contract.", []citation{{"5.2", 1}}},
		{"// by section 5.2.", []citation{{"5.2", 1}}},
		{"// (section 8 of the contract)", []citation{{"8", 1}}},
		{"// Rule 2.2 of the contract", []citation{{"2.2", 1}}},
		{"// rules 3.1 to 3.3 of the contract", []citation{{"3.1", 1}, {"3.3", 1}}},
		{"// the messages: sections 1\n// to 4 and 6 of the contract", []citation{{"1", 1}, {"4", 2}, {"6", 2}}},
		{"a\n\t// as section\n\t// 5.2 of the contract says", []citation{{"5.2", 3}}},
		{"// a form (section 7.5.6\n// of DWARF 5)", nil},
		{"contract 5.2", []citation{{"5.2", 1}}},
		{"Contract 10", []citation{{"10", 1}}},
		{"(contract 1.1b)", []citation{{"1.1b", 1}}},
		{"contract 5.1, 5.2 and 5.4", []citation{{"5.1", 1}, {"5.2", 1}, {"5.4", 1}}},
		{"contract 5.1–5.2", []citation{{"5.1", 1}, {"5.2", 1}}},
		{"contract 5.2, 3 of them, and a frame", []citation{{"5.2", 1}}},
		{"func TestContract_4_6_NothingToDo(t", []citation{{"4.6", 1}}},
		{"func TestContract_7_Defaults(t", []citation{{"7", 1}}},
		{"RFC 8878, section 3.1.1", nil},
		{"Linux 6.12; sections of a module; the rule; 2.2 ms; the contract", nil},
	} {
		assert.Equal(t, tt.want, citations(tt.text), tt.text)
	}
}

func TestWrongCitationsAreFound(t *testing.T) {
	rules := []string{"1", "1.1", "1.1a", "2", "5", "5.2"}
	for _, tt := range []struct{ text, want string }{
		{"// section 5.9 of the contract", "5.9"},
		{"// section 11", "11"},
		{"// rules 5.2\n// and 5.20 of the contract", "5.20"},
		{"// contract 5.2.1", "5.2.1"},
		{"// contract 1.1d", "1.1d"},
		{"// contract 2.2", "2.2"},
		{"func TestContract_5_3_X(", "5.3"},
		{"func TestContract_12_X(", "12"},
	} {
		found := unknown(citations("// contract 1.1a, section 5 and contract 5.2\n"+tt.text), rules)
		if assert.Len(t, found, 1, tt.text) {
			assert.Equal(t, tt.want, found[0].rule)
		}
	}
}
