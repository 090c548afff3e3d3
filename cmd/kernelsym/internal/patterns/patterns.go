// SPDX-License-Identifier: Apache-2.0

// Package patterns matches names of kernel code with the names and patterns of a command line.
package patterns

import (
	"fmt"
	"path"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// List is a list of names and patterns. It is not safe for concurrent use.
type List struct {
	all   []pattern
	known map[string]bool // earlier answers, because names recur
}

// pattern is a name or a pattern.
type pattern struct {
	text    string
	matched bool // it has matched a name
}

// New returns the list of names, which can be patterns with *, ? and [...]. The error wraps [path.ErrBadPattern] and has the
// text of the pattern.
func New(texts ...string) (*List, error) {
	l := &List{known: make(map[string]bool)}
	for _, text := range texts {
		if _, err := path.Match(text, ""); err != nil {
			return nil, fmt.Errorf("%w: %q", err, text)
		}
		l.all = append(l.all, pattern{text: text})
	}
	return l, nil
}

// Match reports whether a name matches one of the list, either as the symbol has it or in its readable form.
func (l *List) Match(name string) bool {
	is, ok := l.known[name]
	if ok {
		return is
	}
	readable := symtab.NameOf(name).Name
	for i := range l.all {
		if l.all[i].is(name) || l.all[i].is(readable) {
			l.all[i].matched, is = true, true
		}
	}
	l.known[name] = is
	return is
}

func (p *pattern) is(name string) bool {
	ok, _ := path.Match(p.text, name) // only a bad pattern is an error, and New rejects it
	return ok || name == p.text
}

// Unmatched returns the texts that matched no name.
func (l *List) Unmatched() (texts []string) {
	for _, each := range l.all {
		if !each.matched {
			texts = append(texts, each.text)
		}
	}
	return texts
}
