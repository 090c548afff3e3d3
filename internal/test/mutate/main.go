// SPDX-License-Identifier: Apache-2.0

// Command mutate verifies that the tests notice if a rule of the contract is not decided. It builds
// the tests of each rule with an overlay in which the functions of the rule's home do nothing and
// return zero values. It fails if the tests pass. Run it in the root of the repository.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/kernelsym/kernelsym/internal/test/homes"
)

// pure has the packages whose tests need no kernel. Together, they test all rules that are decided
// in one place.
var pure = []string{
	"./internal/symtab", "./internal/timeline", "./internal/symbolize", "./internal/otlp", "./internal/inline",
	"./internal/rewrite", "./internal/pack", "./internal/packs", "./internal/packimage", "./internal/sender",
	"./cmd/kernelsym/internal/kelf",
}

func main() {
	only := flag.String("run", "", "mutate only the homes of the rules that this regular expression matches")
	flag.Parse()
	if err := run(context.Background(), *only); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	all, err := homes.Read(".")
	if err != nil {
		return err
	}
	survived := 0
	for _, h := range all {
		if !wanted.MatchString(h.Rule) {
			continue
		}
		source, err := withoutBody(h)
		if err != nil {
			return err
		}
		is, err := isNoticed(ctx, h, source)
		if err != nil {
			return fmt.Errorf("contract %s: %w", h.Rule, err)
		}
		if is {
			fmt.Printf("contract %s: noticed that %s does nothing\n", h.Rule, h)
		} else {
			survived++
			fmt.Printf("contract %s: NOT noticed that %s does nothing\n", h.Rule, h)
		}
	}
	if survived > 0 {
		return fmt.Errorf("%w: %d of %d", errNotNoticed, survived, len(all))
	}
	return nil
}

var errNotNoticed = errors.New("the tests pass without the home of a rule")

// withoutBody returns the file of a home, changed so that the functions of the home do nothing.
func withoutBody(h homes.Home) (changed []byte, err error) {
	source, err := os.ReadFile(h.File)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, h.File, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	offset := func(at token.Pos) int { return files.Position(at).Offset }
	done := 0
	for _, decl := range parsed.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Body == nil || h.Function != "" && homes.NameOf(f) != h.Function {
			continue
		}
		changed = append(changed, source[done:offset(f.Body.Lbrace)+1]...)
		done = offset(f.Body.Lbrace) + 1
		// The original body is never reached, but keeps imports in use.
		results := nothing(f.Type.Results, func(n ast.Node) string { return string(source[offset(n.Pos()):offset(n.End())]) })
		changed = append(changed, "\nif doesNothing {\n"+results+"\n}\n"...)
	}
	changed = append(changed, source[done:]...)
	return append(changed, "\nvar doesNothing = true\n"...), nil
}

// nothing returns a statement that returns zero values.
func nothing(results *ast.FieldList, text func(ast.Node) string) string {
	if results == nil {
		return "return"
	}
	var zeros []string
	for _, field := range results.List {
		for range max(1, len(field.Names)) {
			zeros = append(zeros, "*new("+text(field.Type)+")")
		}
	}
	return "return " + strings.Join(zeros, ", ")
}

// isNoticed reports whether a test of a rule fails if the rule's home has another source. It is an
// error if that source does not build.
func isNoticed(ctx context.Context, h homes.Home, source []byte) (is bool, err error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	original, err := filepath.Abs(h.File)
	if err != nil {
		return false, err
	}
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	config, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		return false, err
	}
	if err := errors.Join(os.WriteFile(changed, source, 0o600), os.WriteFile(overlay, config, 0o600)); err != nil {
		return false, err
	}
	if out, err := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "./internal/...", "./cmd/...").CombinedOutput(); err != nil {
		return false, fmt.Errorf("building without %s: %w: %s", h, err, out)
	}
	tests := "^TestContract_" + strings.ReplaceAll(h.Rule, ".", "_") + "(_|$)"
	args := append([]string{"test", "-count=1", "-timeout=2m", "-short", "-vet=off", "-overlay", overlay, "-run", tests}, pure...)
	return exec.CommandContext(ctx, "go", args...).Run() != nil, nil
}
