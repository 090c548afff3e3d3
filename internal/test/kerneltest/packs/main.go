// SPDX-License-Identifier: Apache-2.0

// Command packs makes packs of real kernels with debug information, measures what that costs, and
// runs the tests that compare packs with other tools. `make test-packs` runs it.
//
// KERNELSYM_DEBUG_ROOT names the kernels: directories, separated as in PATH, into which a
// distribution's kernel and its debug package were unpacked. Without it, the command downloads
// Debian's. It prints a line "bench NAME VALUE" for each figure.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest/debian"
)

func main() {
	var o options
	flag.StringVar(&o.tool, "tool", "build/kernelsym", "the built tool")
	flag.StringVar(&o.collector, "collector", "build/otelcol-kernelsym", "the built collector")
	flag.StringVar(&o.cache, "cache", defaultCache(), "directory for packages; two kernels need 6 GB")
	kernels := flag.String("kernel", "6.1,6.12", "kernels of Debian to get, separated by commas: "+debian.KernelNames())
	flag.BoolVar(&o.measureOnly, "measure-only", false, "do not run the tests")
	flag.Parse()
	o.kernels = strings.Split(*kernels, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "packs:", err)
		os.Exit(1)
	}
}

type options struct {
	tool, collector, cache string
	kernels                []string
	measureOnly            bool
}

func defaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "kernelsym-packs")
}

// lastGreen has the kernels with which all tests passed. The kernels of a distribution move: if a later one fails, what it
// changed is the first question.
var lastGreen = map[string]string{
	"6.12": "linux-image-6.12.117+deb12-cloud-amd64",
}

// rootsEnv names the directories with kernels.
const rootsEnv = "KERNELSYM_DEBUG_ROOT"

func run(ctx context.Context, o options) error {
	roots := filepath.SplitList(os.Getenv(rootsEnv))
	if _, missing := exec.LookPath("apt-get"); len(roots) == 0 && missing != nil {
		fmt.Printf("SKIP: no apt-get to get debug packages: packs of real kernels are not tested. "+
			"%s can name directories with them\n", rootsEnv)
		return nil //nolint:nilerr // nothing is wrong with this machine
	}
	if len(roots) == 0 {
		var err error
		if roots, err = get(ctx, o); err != nil {
			return err
		}
	}
	for _, root := range roots {
		if err := measure(ctx, o.tool, root); err != nil {
			return fmt.Errorf("%s: %w", root, err)
		}
	}
	if o.measureOnly {
		return nil
	}
	if err := runTests(ctx, roots); err != nil {
		return err
	}
	if os.Getenv(rootsEnv) != "" {
		fmt.Println("SKIP: packs are not compared with a running kernel: " + rootsEnv + " names kernels that may not be Debian's")
		return nil
	}
	for i, root := range roots {
		fmt.Printf("=== %s; this was last green with %s\n", filepath.Base(root), cmp.Or(lastGreen[o.kernels[i]], "none"))
		if err := runMachine(ctx, o, o.kernels[i], root); err != nil {
			return fmt.Errorf("kernel %s: %w", o.kernels[i], err)
		}
	}
	return nil
}

// get downloads and unpacks kernels and their debug packages, and returns their directories.
func get(ctx context.Context, o options) (roots []string, err error) {
	for _, name := range o.kernels {
		kernel, err := debian.KernelByName(name)
		if err != nil {
			return nil, err
		}
		apt, pkg, err := kernel.Find(ctx, o.cache)
		if err != nil {
			return nil, err
		}
		root := filepath.Join(o.cache, pkg)
		if err := apt.Unpack(ctx, root, pkg, pkg+"-dbg"); err != nil {
			return nil, err
		}
		roots = append(roots, root)
	}
	return roots, nil
}
