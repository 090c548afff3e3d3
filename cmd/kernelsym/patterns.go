// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// patterns are names of functions, or patterns of them.
type patterns struct {
	all   []pattern
	known map[string]bool // what was answered: names come often
}

// pattern is one of them.
type pattern struct {
	text    string
	matched bool // some name
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

// match reports whether a function's name matches one, as it is in the symbol or as people read
// it.
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
	ok, _ := path.Match(p.text, name) // of which only the pattern can be wrong
	return ok || name == p.text
}

// unmatched returns those that matched no name.
func (p *patterns) unmatched() (texts []string) {
	for _, each := range p.all {
		if !each.matched {
			texts = append(texts, each.text)
		}
	}
	return texts
}
