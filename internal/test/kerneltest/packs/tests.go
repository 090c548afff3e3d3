// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// runTests runs the tests that need kernels with debug information.
func runTests(ctx context.Context, roots []string) error {
	return runGo(ctx, []string{rootsEnv + "=" + strings.Join(roots, string(filepath.ListSeparator))},
		"test", "-count=1", "-v", "-timeout=2h", "-p=1", "./cmd/kernelsym/internal/kelf", "./cmd/kernelsym/internal/dwarfpack",
		"./cmd/kernelsym/internal/packer")
}

// runMachine compares the packs of a kernel with that kernel in a virtual machine: its symbols, and
// the stacks of a load, which a gateway on this machine names, too.
func runMachine(ctx context.Context, o options, kernel, root string) error {
	dir, err := os.MkdirTemp("", "kernelsym-packs")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	packs, out := filepath.Join(dir, "packs"), filepath.Join(dir, "out")
	release := strings.TrimPrefix(filepath.Base(root), "linux-image-")
	symbols := filepath.Join(dir, "symbols")
	for _, args := range [][]string{{"-d", packs}, {"-d", symbols, "--symbols"}} {
		cmd := exec.CommandContext(ctx, o.tool, append([]string{"pack", "--release", release, "--root", root}, args...)...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("making packs: %w", err)
		}
	}
	if err := compareSymbols(packs, symbols); err != nil {
		return err
	}
	for test, pkg := range map[string]string{ // each in a machine of its own
		"^TestPackStacks$": "./internal/test/e2e", "^TestPackNames$": "./cmd/kernelsym/internal/packer",
	} {
		if err := runGo(ctx, nil, "run", "./internal/test/kerneltest/vm", "-kernel", kernel, "-collector", o.collector,
			"-packs", packs, "-out", out, "-run", test, "-timeout", "1h", pkg); err != nil {
			return err
		}
	}
	collector, err := filepath.Abs(o.collector)
	if err != nil {
		return err
	}
	return runGo(ctx, []string{
		kerneltest.PacksEnv + "=" + packs, kerneltest.OutEnv + "=" + out, rootsEnv + "=" + root,
		"KERNELSYM_COLLECTOR=" + collector,
	}, "test", "-count=1", "-v", "-run", "Elsewhere$", "./internal/test/e2e")
}

// compareSymbols compares the symbols of the packs in one directory with the packs in another,
// which have only symbols.
func compareSymbols(packs, symbolsOnly string) error {
	names, err := filepath.Glob(filepath.Join(packs, "*"+pack.Ext))
	if err != nil {
		return err
	}
	total, different := 0, 0
	for _, name := range names {
		full, fullErr := kerneltest.OpenPack(name)
		only, onlyErr := kerneltest.OpenPack(filepath.Join(symbolsOnly, filepath.Base(name)))
		if err := errors.Join(fullErr, onlyErr); err != nil {
			return err
		}
		want, got := slices.Collect(full.Symbols()), slices.Collect(only.Symbols())
		if total += len(want); !slices.Equal(want, got) {
			different++
		}
	}
	kerneltest.Figure("pack_symbol_only_differences %d of %d packs with %d symbols", different, len(names), total)
	if different > 0 || total == 0 {
		return errors.New("packs with only symbols have other symbols")
	}
	return nil
}

// told matches the lines of the tests' output that are printed.
var told = regexp.MustCompile(`^(bench |=== kernel|ok|FAIL|panic:|--- (FAIL|SKIP)|\s+\S+_test\.go:|\s+\t)`)

// runGo runs the go command, with more in its environment.
func runGo(ctx context.Context, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), env...)
	out, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	done := make(chan error)
	go func() {
		err := cmd.Run()
		_ = w.Close()
		done <- err
	}()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if told.MatchString(lines.Text()) {
			fmt.Println(lines.Text())
		}
	}
	_, _ = io.Copy(io.Discard, out) // after a line that is too long
	return <-done
}
