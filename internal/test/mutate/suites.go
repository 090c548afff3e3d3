// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sync"
)

// A suite is tests of one package. All run with -short, so with few seeds.
type suite struct {
	pkg  string // its directory, from the root of the repository
	flag string // of its tests
}

// The suites that compare the code with the model of the contract, and with simulated kernels; and one of a part of a package.
var (
	model    = suite{"internal/test/contract", "-model.fail=1"}
	modules  = suite{"internal/kmod", "-test.run=^TestSimulation"}
	programs = suite{"internal/bpfprog", "-test.run=^TestSimulation"}
	waits    = suite{"internal/kernelstack", "-test.run=^TestContract_5_3_"} // the others take long
)

// suites has the tests that notice the mutants of a package, in the order in which they run.
var suites = map[string][]suite{
	"cmd/kernelsym/internal/kelf":      {{pkg: "cmd/kernelsym/internal/kelf"}},
	"cmd/kernelsym/internal/kernellog": {{pkg: "cmd/kernelsym/internal/kernellog"}},
	"internal/inline":                  {{pkg: "internal/inline"}, model},
	"internal/kernelstack":             {waits},
	"internal/kmod":                    {modules, {pkg: "internal/kmod"}},
	"internal/ledger":                  {programs, {pkg: "internal/ledger"}},
	"internal/locate":                  {{pkg: "internal/locate"}},
	"internal/otlp":                    {model, {pkg: "internal/otlp"}, {pkg: "internal/rewrite"}},
	"internal/pack":                    {{pkg: "internal/pack"}},
	"internal/rewrite":                 {model, {pkg: "internal/rewrite"}},
	"internal/sender":                  {{pkg: "internal/sender"}},
	"internal/symbolize":               {model, {pkg: "internal/symbolize"}, {pkg: "internal/rewrite"}},
	"internal/symtab":                  {{pkg: "internal/symtab"}, model},
	"internal/timeline":                {model, {pkg: "internal/timeline"}, {pkg: "internal/ledger"}},
}

// distinctSuites returns all suites.
func distinctSuites() (all []suite) {
	for _, of := range suites {
		all = append(all, of...)
	}
	slices.SortFunc(all, func(a, b suite) int { return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.flag, b.flag)) })
	return slices.Compact(all)
}

var errFails = errors.New("fails without a mutant")

// testWithout runs all suites without a mutant. The suites were built in dir.
func testWithout(ctx context.Context, dir string) (err error) {
	for _, s := range distinctSuites() {
		if failed := s.run(ctx, dir, 0); failed != "" {
			err = errors.Join(err, fmt.Errorf("%s %w", failed, errFails))
		}
	}
	return err
}

// testAll tests mutants, one on each CPU at a time, and returns the first test of each that failed.
func testAll(ctx context.Context, dir string, mutants []mutant) (failed map[mutant]string) {
	failed = make(map[mutant]string)
	next := make(chan mutant)
	var mu sync.Mutex // guards failed
	var workers sync.WaitGroup
	for range runtime.NumCPU() {
		workers.Go(func() {
			for m := range next {
				test := m.test(ctx, dir)
				mu.Lock()
				failed[m] = test
				mu.Unlock()
			}
		})
	}
	for _, m := range mutants {
		next <- m
	}
	close(next)
	workers.Wait()
	return failed
}

// test returns the first test that fails with a mutant, empty if none does.
func (m mutant) test(ctx context.Context, dir string) (failed string) {
	for _, s := range suites[path.Dir(m.File)] {
		if failed = s.run(ctx, dir, m.Number); failed != "" {
			return failed
		}
	}
	return ""
}

// nameOfTest finds the test that failed, that was running at the end of its time, or that is in the stack of a crash.
var nameOfTest = regexp.MustCompile(`(?m)(?:--- FAIL: |^\t\t|\.)((?:Test|Fuzz)\w+)`)

// run returns the first test of a suite that fails with a mutant, empty if none does.
func (s suite) run(ctx context.Context, dir string, mutant int) (failed string) {
	args := []string{"-test.short", "-test.failfast", "-test.timeout=2m"}
	if s.flag != "" {
		args = append(args, s.flag)
	}
	test := exec.CommandContext(ctx, filepath.Join(dir, path.Base(s.pkg)+".test"), args...)
	test.Dir = s.pkg
	test.Env = append(os.Environ(), fmt.Sprintf("%s=%d", environment, mutant))
	out, err := test.CombinedOutput()
	if err == nil {
		return ""
	}
	failed = s.pkg
	if name := nameOfTest.FindSubmatch(out); name != nil {
		failed += " " + string(name[1])
	}
	if bytes.Contains(out, []byte("panic: test timed out")) {
		failed += " (timeout)"
	}
	return failed
}
