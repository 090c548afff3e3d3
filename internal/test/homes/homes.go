// SPDX-License-Identifier: Apache-2.0

// Package homes reads from docs/contract.md which code decides each rule.
package homes

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A Home is code that decides a rule of the contract, or a part of it.
type Home struct {
	Rule      string   // such as "2.3"
	File      string   // from the root of the repository
	Functions []string // such as "Kernel.Resolve"; none if the whole file is the home
}

// Has reports whether a function of the home's file, named as by [NameOf], belongs to the home.
func (h Home) Has(function string) bool {
	return len(h.Functions) == 0 || slices.Contains(h.Functions, function)
}

// decidedBy matches the paragraph below a heading that names the homes of a rule, and home one of them.
// keptEverywhere matches the line that names what checks the rule.
var (
	headingOfRule  = regexp.MustCompile(`^### (\d+\.\d+) `)
	decidedBy      = regexp.MustCompile(`^\*Decided by (.*` + home.String() + `[^[]*)\.\*$`)
	home           = regexp.MustCompile(`((?:\x60[A-Za-z.]+\x60(?:, | and | in ))*)\[([a-z/_.]+\.go)\]\(\.\./([a-z/_.]+\.go)\)`)
	function       = regexp.MustCompile(`\x60([A-Za-z.]+)\x60`)
	keptEverywhere = regexp.MustCompile(`^\*Kept everywhere: .+\*$`)
)

// decided has the sections in which each rule is decided in one place, except for rules that are
// kept everywhere.
var decided = map[string]bool{"1": true, "2": true, "3": true, "4": true, "5": true, "10": true}

// Errors of Read.
var (
	ErrNoHome = errors.New("the rule is neither decided nor kept everywhere")
	ErrLink   = errors.New("the link leads elsewhere")
	ErrGone   = errors.New("there is no such function")
)

// Read returns the homes that docs/contract.md names. root is the root of the repository. The error
// joins everything that is wrong with the page.
func Read(root string) (homes []Home, err error) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "contract.md"))
	if err != nil {
		return nil, err
	}
	paragraphs := strings.Split(string(page), "\n\n")
	for i, heading := range paragraphs[:len(paragraphs)-1] {
		rule := headingOfRule.FindStringSubmatch(heading)
		if rule == nil || !decided[strings.Split(rule[1], ".")[0]] {
			continue
		}
		below := strings.ReplaceAll(paragraphs[i+1], "\n", " ")
		match := decidedBy.FindStringSubmatch(below)
		if match == nil && !keptEverywhere.MatchString(below) {
			err = errors.Join(err, fmt.Errorf("contract %s: %w", rule[1], ErrNoHome))
		}
		if match == nil {
			continue
		}
		for _, at := range home.FindAllStringSubmatch(match[1], -1) {
			if at[2] != at[3] {
				err = errors.Join(err, fmt.Errorf("contract %s: %w: %s", rule[1], ErrLink, at[3]))
			}
			h := Home{Rule: rule[1], File: at[2]}
			for _, f := range function.FindAllStringSubmatch(at[1], -1) {
				h.Functions = append(h.Functions, f[1])
			}
			homes, err = append(homes, h), errors.Join(err, h.check(root))
		}
	}
	return homes, err
}

// check returns an error unless the file and the functions of a home exist.
func (h Home) check(root string) error {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, h.File), nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, name := range h.Functions {
		isIt := func(d ast.Decl) bool {
			f, ok := d.(*ast.FuncDecl)
			return ok && NameOf(f) == name
		}
		if !slices.ContainsFunc(file.Decls, isIt) {
			err = errors.Join(err, fmt.Errorf("contract %s: %w: %s in %s", h.Rule, ErrGone, name, h.File))
		}
	}
	return err
}

// NameOf returns the name of a function with its receiver's type, as in [Home.Function].
func NameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	if id, ok := receiver.(*ast.Ident); ok {
		return id.Name + "." + f.Name.Name
	}
	return f.Name.Name
}
