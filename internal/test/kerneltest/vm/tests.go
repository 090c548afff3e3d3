// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest/debian"
)

// A testTree has the binaries for the machines of an architecture.
type testTree struct {
	init      string // the first process
	collector string // empty for none
	tests     []test
}

// A test is the tests of one package.
type test struct {
	pkg    string // import path
	dir    string // directory of its source, for the files it reads there
	binary string
	files  int // number of files with tests
}

// buildTests builds the tests of all packages that use kerneltest, because these need a real
// kernel.
func buildTests(ctx context.Context, o options, arch string) (*testTree, error) {
	patterns := o.packages
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	const format = "{{.ImportPath}} {{.Dir}}\t{{.TestImports}} {{.XTestImports}}\t{{len .TestGoFiles}}"
	list, err := debian.Output(ctx, "", "go", append([]string{"list", "-f", format}, patterns...)...)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(o.runDir, arch)
	tree := &testTree{init: filepath.Join(dir, "init"), collector: o.collector}
	if err := build(ctx, arch, "build", tree.init, "github.com/kernelsym/kernelsym/internal/test/kerneltest/vm/init"); err != nil {
		return nil, err
	}
	if o.collector != "" && arch != runtime.GOARCH {
		// Its source is in the same directory.
		tree.collector = filepath.Join(o.dir, arch, "otelcol")
		if err := build(ctx, arch, "build", tree.collector, ".", "-C", filepath.Dir(o.collector)); err != nil {
			return nil, err
		}
	}
	for line := range strings.Lines(list) {
		pkg, rest, _ := strings.Cut(line, " ")
		source, rest, _ := strings.Cut(rest, "\t")
		imports, files, _ := strings.Cut(rest, "\t")
		if !strings.Contains(imports, "/internal/test/kerneltest") {
			continue
		}
		t := test{pkg: pkg, dir: source}
		if t.files, err = strconv.Atoi(strings.TrimSpace(files)); err != nil {
			return nil, err
		}
		t.binary = filepath.Join(dir, strings.ReplaceAll(t.pkg, "/", "_")+".test")
		if err := build(ctx, arch, "test", t.binary, t.pkg, "-c"); err != nil {
			return nil, err
		}
		tree.tests = append(tree.tests, t)
	}
	if len(tree.tests) == 0 {
		return nil, fmt.Errorf("no package in %v has tests that need a kernel", patterns)
	}
	// Packages that are likely to take long come first, so that the machines end at about the same
	// time.
	slices.SortStableFunc(tree.tests, func(a, b test) int { return cmp.Compare(b.files, a.files) })
	return tree, nil
}

// packages returns the import paths of the packages with tests.
func (tree *testTree) packages() (all []string) {
	for _, t := range tree.tests {
		all = append(all, t.pkg)
	}
	return all
}

// build builds a static binary, because the machine has no libraries. -C must be the first flag.
func build(ctx context.Context, arch, command, binary, pkg string, flags ...string) error {
	args := append(append([]string{command}, flags...), "-trimpath", "-ldflags=-s -w", "-o", binary)
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// root is the directory of the packages in the machine.
const root = "/src"

// writeInitrd writes the files that the machine begins with: the first process, the tests with
// their testdata and the other files of the module that they read, the kernel's image and modules, and
// the collector.
func writeInitrd(file string, k *kernel, tree *testTree, o options) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	a := newArchive(f)
	a.file("/init", tree.init)
	a.file("/bin/true", tree.init)
	a.file("/boot/vmlinuz-"+k.release, k.image)
	a.tree("/lib/modules/"+k.release, k.modules, func(name string) bool { return strings.HasSuffix(name, ".ko") })
	all := func(string) bool { return true }
	for _, t := range tree.tests {
		dir := path.Join(root, t.pkg)
		a.file(dir+"/test", t.binary)
		a.tree(dir+"/testdata", filepath.Join(t.dir, "testdata"), all)
		for _, name := range []string{"metadata.yaml", "config.schema.json"} {
			if _, err := os.Stat(filepath.Join(t.dir, name)); err == nil {
				a.file(path.Join(dir, name), filepath.Join(t.dir, name))
			}
		}
	}
	a.tree(root+"/github.com/kernelsym/kernelsym/deploy", "deploy", all)
	if tree.collector != "" {
		a.file("/bin/otelcol", tree.collector)
	}
	a.content("/args", fmt.Appendf(nil, "-test.run=%s\n-test.timeout=%s\n-test.v=%t\n", o.run, o.timeout, o.verbose))
	smallFile, err := kerneltest.TimeSmallFile()
	if err != nil {
		return err
	}
	env := fmt.Sprintf("KERNELSYM_VM=1\n%s=%d\n%s=%s\n%s\n", kerneltest.BootsEnv, o.boots, kerneltest.SmallFileEnv, smallFile, o.env)
	if o.packs != "" {
		a.tree("/packs", o.packs, func(name string) bool { return strings.HasSuffix(name, pack.Ext) })
		env += kerneltest.PacksEnv + "=/packs\n"
	}
	a.content("/env", []byte(env))
	a.content("/etc/hosts", []byte("127.0.0.1 localhost\n"))
	a.content("/etc/passwd", []byte("root:x:0:0::/:/init\n"))
	return a.close()
}
