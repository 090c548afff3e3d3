// SPDX-License-Identifier: Apache-2.0

// Command mutate verifies that a test fails if a condition is wrong in the code that decides the rules of the contract. It
// negates each condition of that code, one at a time, runs the model, the simulations and the packages' own tests until one
// fails, and prints a table of the conditions and of the tests that noticed. It fails if no test noticed. Run it in the root
// of the repository.
//
// The tests are built once, with all mutants: the environment of a process says which of them it runs.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"text/tabwriter"
)

func main() {
	only := flag.String("run", "", "test only the mutants that this regular expression matches, such as ledger.go.Ledger.EndList")
	flag.Parse()
	if err := run(context.Background(), *only); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string) (err error) {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	mutants, err := build(ctx, dir)
	if err != nil {
		return err
	}
	mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return !wanted.MatchString(m.String()) })
	if err := testWithout(ctx, dir); err != nil {
		return err
	}
	return report(mutants, testAll(ctx, dir, mutants))
}

var errNotNoticed = errors.New("no test fails")

// report prints a table of the mutants and of the tests that failed. The error joins the mutants with which none did.
func report(mutants []mutant, failed map[mutant]string) (err error) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, m := range mutants {
		if failed[m] == "" {
			err = errors.Join(err, fmt.Errorf("%s: %w", m, errNotNoticed))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", m.File, m.Function, m.Change, cmp.Or(failed[m], "NONE"))
	}
	fmt.Fprintf(table, "%d mutants\n", len(mutants))
	return errors.Join(err, table.Flush())
}
