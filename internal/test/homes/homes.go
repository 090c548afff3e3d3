// SPDX-License-Identifier: Apache-2.0

// Package homes reads from docs/contract.md which code decides each rule.
package homes

import (
	"errors"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A Home is the code that decides a rule of the contract.
type Home struct {
	Rule     string // such as "2.3"
	File     string // from the root of the repository
	Function string // such as "Kernel.Resolve"; empty if the whole file is the home
}

// String returns the home as docs/contract.md names it.
func (h Home) String() string {
	if h.Function == "" {
		return h.File
	}
	return h.Function + " in " + h.File
}

// decidedBy matches the line below a heading that names the home of a rule. keptEverywhere matches
// the line that names what checks it.
var (
	headingOfRule  = regexp.MustCompile(`^### (\d+\.\d+) `)
	decidedBy      = regexp.MustCompile(`^\*Decided by (?:\x60([A-Za-z.]+)\x60 in )?\[([a-z/_.]+\.go)\]\(\.\./([a-z/_.]+\.go)\)\.\*$`)
	keptEverywhere = regexp.MustCompile(`^\*Kept everywhere: .+\*$`)
)

// decided has the sections in which each rule is decided in one place, except for rules that are
// kept everywhere.
var decided = map[string]bool{"1": true, "2": true, "3": true, "4": true, "5": true, "10": true}

// Errors of Read.
var (
	ErrNoHome = errors.New("the rule is neither decided nor kept everywhere")
	ErrLink   = errors.New("the link leads elsewhere")
)

// Read returns the homes that docs/contract.md names. root is the root of the repository. The error
// joins everything that is wrong with the page.
func Read(root string) (homes []Home, err error) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "contract.md"))
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(page), "\n")
	for i, line := range lines[:max(0, len(lines)-2)] {
		heading := headingOfRule.FindStringSubmatch(line)
		if heading == nil || !decided[strings.Split(heading[1], ".")[0]] {
			continue
		}
		match := decidedBy.FindStringSubmatch(lines[i+2])
		switch {
		case match == nil && !keptEverywhere.MatchString(lines[i+2]):
			err = errors.Join(err, fmt.Errorf("contract %s: %w", heading[1], ErrNoHome))
		case match == nil:
		case match[2] != match[3]:
			err = errors.Join(err, fmt.Errorf("contract %s: %w: %s", heading[1], ErrLink, match[3]))
		default:
			homes = append(homes, Home{Rule: heading[1], File: match[2], Function: match[1]})
		}
	}
	return homes, err
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
