package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
)

// runTests runs the tests that need kernels with debug information.
func runTests(ctx context.Context, roots []string) error {
	return runGo(ctx, []string{rootsEnv + "=" + strings.Join(roots, string(filepath.ListSeparator))},
		"test", "-count=1", "-v", "-timeout=2h", "-p=1", "./internal/kelf", "./internal/dwarfpack")
}

// runMachine compares the packs of a kernel with that kernel, in a virtual machine: its symbols,
// and the stacks of a load, which a gateway on this machine names, too.
func runMachine(ctx context.Context, o options, kernel, root string) error {
	dir, err := os.MkdirTemp("", "kernelsym-packs")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	packs, out := filepath.Join(dir, "packs"), filepath.Join(dir, "out")
	release := strings.TrimPrefix(filepath.Base(root), "linux-image-")
	cmd := exec.CommandContext(ctx, o.tool, "pack", "--release", release, "--root", root, "-d", packs)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("making packs: %w", err)
	}
	for _, test := range []string{"^TestPackStacks$", "^TestPackNames$"} { // each in a machine of its own
		if err := runGo(ctx, nil, "run", "./internal/kerneltest/vm", "-kernel", kernel, "-collector", o.collector,
			"-packs", packs, "-out", out, "-run", test, "-timeout", "1h", "./internal/e2e"); err != nil {
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
	}, "test", "-count=1", "-v", "-run", "Elsewhere$", "./internal/e2e")
}

// told is what is printed of what tests say.
var told = regexp.MustCompile(`^(bench |=== kernel|ok|FAIL|panic:|--- (FAIL|SKIP)|\s+\S+_test\.go:)`)

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
