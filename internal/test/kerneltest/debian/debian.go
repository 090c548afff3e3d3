// SPDX-License-Identifier: Apache-2.0

// Package debian downloads kernels of Debian, in their packages, for tests and measurements.
package debian

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Apt is Debian's package manager, for one suite.
type Apt struct {
	dir  string
	args []string
}

// New returns the package manager for packages of a suite and an architecture. It uses the mirror
// that this machine uses. Without a suite, it uses the machine's own sources. Files are downloaded
// to dir.
func New(ctx context.Context, dir, suite, arch string) (*Apt, error) {
	a := &Apt{dir: dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if suite == "" {
		return a, nil
	}
	sites, err := Output(ctx, "", "apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", "Component: main")
	if err != nil {
		return nil, err
	}
	site, _, ok := strings.Cut(sites, "\n")
	if !ok {
		return nil, errors.New("apt-get has no mirror")
	}
	state := filepath.Join(dir, "apt-"+suite+"-"+arch)
	for _, sub := range []string{"lists/partial", "archives/partial"} {
		if err := os.MkdirAll(filepath.Join(state, sub), 0o755); err != nil {
			return nil, err
		}
	}
	const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
	list := filepath.Join(state, "sources.list")
	line := fmt.Sprintf("deb [arch=%s signed-by=%s] %s %s main\n", arch, keyring, site, suite)
	if err := os.WriteFile(list, []byte(line), 0o644); err != nil {
		return nil, err
	}
	a.args = []string{
		"-o", "Dir::Etc::SourceList=" + list, "-o", "Dir::Etc::SourceParts=/dev/null",
		"-o", "Dir::State::Lists=" + filepath.Join(state, "lists"), "-o", "Dir::Cache=" + state,
		"-o", "Dir::Cache::Archives=archives",
		"-o", "APT::Architecture=" + arch, "-o", "APT::Architectures::=" + arch,
	}
	return a, nil
}

func (a *Apt) run(ctx context.Context, program string, args ...string) (string, error) {
	return Output(ctx, a.dir, program, append(slices.Clone(a.args), args...)...)
}

// Release returns the release, as uname -r prints it, of the kernel in a package.
func Release(pkg string) string { return strings.TrimPrefix(pkg, "linux-image-") }

// KernelOf returns the package of the kernel that a metapackage stands for.
func (a *Apt) KernelOf(ctx context.Context, pkg string) (string, error) {
	for try := 0; ; try++ {
		names, err := a.dependencies(ctx, pkg)
		if i := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, "linux-image-") }); i >= 0 {
			return names[i], nil
		}
		if try > 0 {
			return "", fmt.Errorf("no kernel that %s stands for (%w)", pkg, err)
		}
		if _, err := a.run(ctx, "apt-get", "update", "-q"); err != nil {
			return "", err
		}
	}
}

func (a *Apt) dependencies(ctx context.Context, pkg string) (names []string, err error) {
	out, err := a.run(ctx, "apt-cache", "depends", "--important", pkg)
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: "); ok {
			names = append(names, name)
		}
	}
	return names, err
}

// Unpack unpacks packages of kernels to a directory, unless that was done before. Since Linux 7,
// the package of a kernel consists of others, which have the same version in their names.
func (a *Apt) Unpack(ctx context.Context, tree string, pkgs ...string) error {
	complete := filepath.Join(tree, "complete")
	if _, err := os.Stat(complete); err == nil {
		return nil
	}
	fmt.Printf("=== getting %s\n", strings.Join(pkgs, " and "))
	if err := os.RemoveAll(tree); err != nil {
		return err
	}
	for _, pkg := range pkgs {
		names, err := a.dependencies(ctx, pkg)
		if err != nil {
			return err
		}
		for _, name := range append(names, pkg) {
			if name == pkg || strings.HasPrefix(name, "linux-") && strings.HasSuffix(name, Release(pkg)) {
				if err := a.unpackOne(ctx, name, tree); err != nil {
					return err
				}
			}
		}
	}
	return os.WriteFile(complete, nil, 0o644)
}

// unpackOne downloads a package, checks it and unpacks it.
func (a *Apt) unpackOne(ctx context.Context, pkg, tree string) error {
	if _, err := a.run(ctx, "apt-get", "download", "-q", pkg); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(a.dir, pkg+"_*.deb"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("apt-get left %v (%w)", files, err)
	}
	defer func() { _ = os.Remove(files[0]) }()
	if err := a.check(ctx, pkg, files[0]); err != nil {
		return err
	}
	_, err = Output(ctx, "", "dpkg-deb", "-x", files[0], tree)
	return err
}

// check compares a file with the hash in the signed list of packages.
func (a *Apt) check(ctx context.Context, pkg, file string) error {
	shown, err := a.run(ctx, "apt-cache", "show", "--no-all-versions", pkg)
	if err != nil {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if !strings.Contains(shown, "SHA256: "+hex.EncodeToString(sum.Sum(nil))) {
		return fmt.Errorf("%s does not have the hash in the list of packages", file)
	}
	return nil
}

// Output runs a program in a directory and returns its standard output.
func Output(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", program, err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.String(), nil
}
