// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// patterns is a list of function names and patterns.
type patterns struct {
	all   []pattern
	known map[string]bool // earlier answers, because names recur
}

// pattern is a name or a pattern.
type pattern struct {
	text    string
	matched bool // it has matched a name
}

func newPatterns(texts ...string) (*patterns, error) {
	p := &patterns{known: make(map[string]bool)}
	for _, text := range texts {
		if _, err := path.Match(text, ""); err != nil {
			return nil, fmt.Errorf("%w: %q", err, text)
		}
		p.all = append(p.all, pattern{text: text})
	}
	return p, nil
}

// match reports whether a function's name matches one of them, either as the symbol has it or in
// its readable form.
func (p *patterns) match(name string) bool {
	is, ok := p.known[name]
	if ok {
		return is
	}
	readable := symtab.NameOf(name).Name
	for i := range p.all {
		if p.all[i].is(name) || p.all[i].is(readable) {
			p.all[i].matched, is = true, true
		}
	}
	p.known[name] = is
	return is
}

func (p *pattern) is(name string) bool {
	ok, _ := path.Match(p.text, name) // only a bad pattern is an error, and newPatterns rejects it
	return ok || name == p.text
}

// unmatched returns the patterns that matched no name.
func (p *patterns) unmatched() (texts []string) {
	for _, each := range p.all {
		if !each.matched {
			texts = append(texts, each.text)
		}
	}
	return texts
}
