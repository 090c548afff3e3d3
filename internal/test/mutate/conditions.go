// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/internal/test/homes"
)

// A mutant is a change to a function.
type mutant struct {
	Number         int    // from 1
	File, Function string // the file is named from the root of the repository, the function as by [homes.NameOf]
	Change         string // the condition that is negated, or doesNothing
}

// doesNothing is the change to a function without conditions: it returns zero values.
const doesNothing = "does nothing"

func (m mutant) String() string { return m.File + " " + m.Function + ": " + m.Change }

// environment is the variable with the number of the mutant that a process runs. Without it, it runs none.
const environment = "KERNELSYM_MUTANT"

// instrument returns the source of a file, changed so that a process runs the mutant that it chooses. The mutants are of
// the wanted functions; their numbers begin with first. There is one for each condition: for each operand of && and ||, each
// comparison, each value of a switch, and each min and max, which become each other.
func instrument(file string, source []byte, isWanted func(function string) bool, first int) ([]byte, []mutant, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	i := instrumenter{
		files: files, source: source, file: file, first: first,
		count: make(map[string]int), isCondition: make(map[ast.Expr]bool),
	}
	for _, decl := range parsed.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil && len(f.Body.List) > 0 && isWanted(homes.NameOf(f)) {
			i.visitFunction(f)
		}
	}
	return i.result(), i.mutants, nil
}

// An instrumenter collects the changes to a file.
type instrumenter struct {
	files   *token.FileSet
	source  []byte
	file    string
	first   int // number of the first mutant
	mutants []mutant
	count   map[string]int // of the mutants of a function with equal conditions
	edits   []edit

	function    string
	results     *ast.FieldList    // of the innermost function
	isCondition map[ast.Expr]bool // expressions that are conditions because of where they stand
}

// An edit puts a text in the place of the source from one offset to another. Of several at one offset, the first comes
// first.
type edit struct {
	from, to int
	text     string
}

func (i *instrumenter) offset(at token.Pos) int { return i.files.Position(at).Offset }
func (i *instrumenter) text(n ast.Node) string {
	return string(i.source[i.offset(n.Pos()):i.offset(n.End())])
}
func (i *instrumenter) insert(at token.Pos, text string) {
	i.edits = append(i.edits, edit{i.offset(at), i.offset(at), text})
}

// add adds a mutant and returns its number. Equal conditions of a function are counted.
func (i *instrumenter) add(change string) int {
	change = strings.Join(strings.Fields(change), " ")
	key := i.function + ": " + change
	if i.count[key]++; i.count[key] > 1 {
		change = fmt.Sprintf("%s (%d)", change, i.count[key])
	}
	number := i.first + len(i.mutants)
	i.mutants = append(i.mutants, mutant{number, i.file, i.function, change})
	return number
}

func (i *instrumenter) visitFunction(f *ast.FuncDecl) {
	i.function, i.results = homes.NameOf(f), f.Type.Results
	before := len(i.mutants)
	i.visitChildren(f.Body)
	if len(i.mutants) == before {
		i.insert(f.Body.Lbrace+1, fmt.Sprintf("\nif isMutant(%d) {\n%s\n}\n", i.add(doesNothing), i.returnNothing(f.Type.Results)))
	}
}

// returnNothing returns a statement that returns zero values.
func (i *instrumenter) returnNothing(results *ast.FieldList) string {
	var zeros []string
	for _, t := range typesOf(results) {
		zeros = append(zeros, "*new("+i.text(t)+")")
	}
	return "return " + strings.Join(zeros, ", ")
}

// typesOf returns the types of the results of a function.
func typesOf(results *ast.FieldList) (types []ast.Expr) {
	if results == nil {
		return nil
	}
	for _, field := range results.List {
		for range max(1, len(field.Names)) {
			types = append(types, field.Type)
		}
	}
	return types
}

func (i *instrumenter) visitChildren(parent ast.Node) {
	ast.Inspect(parent, func(n ast.Node) bool {
		if n != nil && n != parent {
			i.visit(n)
		}
		return n == parent
	})
}

func (i *instrumenter) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.GenDecl:
		if n.Tok == token.CONST {
			return
		}
	case *ast.FuncLit:
		outer := i.results
		i.results = n.Type.Results
		i.visitChildren(n)
		i.results = outer
		return
	case *ast.IfStmt:
		i.isCondition[n.Cond] = true
	case *ast.ForStmt:
		i.isCondition[n.Cond] = true
	case *ast.SwitchStmt:
		i.visitSwitch(n)
	case *ast.ReturnStmt:
		i.visitReturn(n)
	case ast.Expr:
		i.visitExpr(n)
		return
	}
	i.visitChildren(n)
}

// visitSwitch makes conditions of the values of a switch.
func (i *instrumenter) visitSwitch(s *ast.SwitchStmt) {
	if s.Tag != nil {
		i.edits = append(i.edits, edit{i.offset(s.Tag.Pos()), i.offset(s.Tag.End()), ""})
	}
	for _, clause := range s.Body.List {
		for _, value := range clause.(*ast.CaseClause).List {
			if s.Tag == nil {
				i.isCondition[value] = true
				continue
			}
			n := i.add(i.text(s.Tag) + " == " + i.text(value))
			i.insert(value.Pos(), fmt.Sprintf("(isMutant(%d) != ((%s) == (", n, i.text(s.Tag)))
			i.insert(value.End(), ")))")
		}
	}
}

// visitReturn makes conditions of the results that are bool.
func (i *instrumenter) visitReturn(r *ast.ReturnStmt) {
	types := typesOf(i.results)
	if len(types) != len(r.Results) {
		return // no results, or a call that returns them
	}
	for k, result := range r.Results {
		if id, ok := types[k].(*ast.Ident); ok && id.Name == "bool" {
			i.isCondition[result] = true
		}
	}
}

func (i *instrumenter) visitExpr(e ast.Expr) {
	isCondition := i.isCondition[e]
	switch e := e.(type) {
	case *ast.ParenExpr:
		i.isCondition[e.X] = isCondition
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			i.isCondition[e.X], isCondition = true, false
		}
	case *ast.BinaryExpr:
		switch e.Op {
		case token.LAND, token.LOR:
			i.isCondition[e.X], i.isCondition[e.Y], isCondition = true, true, false
		case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
			isCondition = true
		}
	case *ast.Ident:
		isCondition = isCondition && e.Name != "true" && e.Name != "false"
	case *ast.CallExpr:
		if id, ok := e.Fun.(*ast.Ident); ok && (id.Name == "min" || id.Name == "max") {
			i.edits = append(i.edits, edit{i.offset(id.Pos()), i.offset(id.End()), id.Name + "OrMutant"})
			i.insert(e.Lparen+1, fmt.Sprintf("%d, ", i.add(i.text(e))))
		}
	}
	if _, isParen := e.(*ast.ParenExpr); !isCondition || isParen {
		i.visitChildren(e)
		return
	}
	i.insert(e.Pos(), fmt.Sprintf("(isMutant(%d) != (", i.add(i.text(e))))
	i.visitChildren(e)
	i.insert(e.End(), "))")
}

// result returns the source with the edits.
func (i *instrumenter) result() []byte {
	slices.SortStableFunc(i.edits, func(a, b edit) int { return a.from - b.from })
	var out bytes.Buffer
	done := 0
	for _, e := range i.edits {
		out.Write(i.source[done:e.from])
		out.WriteString(e.text)
		done = e.to
	}
	out.Write(i.source[done:])
	return out.Bytes()
}

// chooser returns the file that an instrumented package needs.
func chooser(pkg string) []byte {
	return []byte("package " + pkg + `

import (
	"cmp"
	"os"
	"strconv"
)

var theMutant, _ = strconv.Atoi(os.Getenv("` + environment + `"))

func isMutant(n int) bool { return n == theMutant }

func minOrMutant[T cmp.Ordered](n int, extreme T, others ...T) T {
	for _, other := range others {
		if isMutant(n) != (other < extreme) {
			extreme = other
		}
	}
	return extreme
}

func maxOrMutant[T cmp.Ordered](n int, extreme T, others ...T) T {
	for _, other := range others {
		if isMutant(n) != (other > extreme) {
			extreme = other
		}
	}
	return extreme
}
`)
}
