package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// kernels are those that can be tested: a package, which depends on the one of
// the present version, in a suite of Debian's; no suite means that the machine's
// own sources have it (Debian 12).
var kernels = map[string]struct{ metaPackage, suite, arch string }{
	"5.10":       {"linux-image-cloud-amd64", "bullseye", "amd64"},
	"6.1":        {"linux-image-cloud-amd64", "", "amd64"},
	"6.12":       {"linux-image-6.12-cloud-amd64", "", "amd64"},
	"7":          {"linux-image-cloud-amd64", "trixie-backports", "amd64"},
	"6.12-arm64": {"linux-image-cloud-arm64", "trixie", "arm64"},
}

func kernelNames() string {
	var names []string
	for name := range kernels {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// A kernel is one that is there to be booted.
type kernel struct {
	release string // as uname -r has it
	image   string // file
	modules string // directory of its modules, not compressed
	*platform
}

var errCannotInstall = errors.New("no apt-get, or not root, to get qemu and kernels")

// install installs what is needed for kernels that is not there.
func install(ctx context.Context, names []string) error {
	needed := map[string]string{"xz": "xz-utils"} // packages by program
	for _, name := range names {
		if k, ok := kernels[name]; ok {
			needed[platforms[k.arch].qemu] = platforms[k.arch].pkg
		}
	}
	var missing []string
	for program, pkg := range needed {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, pkg)
		}
	}
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			return errCannotInstall
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if os.Geteuid() != 0 {
		return errCannotInstall
	}
	if _, err := output(ctx, "", "apt-get", "update", "-q"); err != nil {
		return err
	}
	_, err := output(ctx, "", "apt-get", append([]string{"install", "-q", "-y", "--no-install-recommends"}, missing...)...)
	return err
}

// getKernel returns a kernel by its name in kernels, which it downloads unless
// the present version is in dir.
func getKernel(ctx context.Context, dir, name string) (*kernel, error) {
	from, ok := kernels[name]
	if !ok {
		return nil, fmt.Errorf("no kernel %q: there are %s", name, kernelNames())
	}
	apt, err := newApt(ctx, dir, from.suite, from.arch)
	if err != nil {
		return nil, err
	}
	pkg, err := apt.kernelOf(ctx, from.metaPackage)
	if err != nil {
		return nil, err
	}
	release := strings.TrimPrefix(pkg, "linux-image-")
	tree := filepath.Join(dir, pkg)
	if _, err := os.Stat(filepath.Join(tree, "complete")); err != nil {
		fmt.Printf("=== getting %s\n", pkg)
		if err := apt.unpack(ctx, pkg, release, tree); err != nil {
			return nil, err
		}
	}
	modules, modulesErr := firstOf(
		filepath.Join(tree, "lib", "modules", release),
		filepath.Join(tree, "usr", "lib", "modules", release), // since Debian 13
	)
	image, imageErr := firstOf(
		filepath.Join(tree, "boot", "vmlinuz-"+release),
		filepath.Join(modules, "vmlinuz"), // since Linux 7
	)
	return &kernel{release, image, modules, platforms[from.arch]}, errors.Join(modulesErr, imageErr)
}

// firstOf returns the first file that is there.
func firstOf(files ...string) (string, error) {
	for _, file := range files {
		if _, err := os.Stat(file); err == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("none of %v is there", files)
}

// apt is Debian's package manager, for one suite.
type apt struct {
	dir  string
	args []string
}

// newApt returns the package manager for packages of the suite, for machines of an
// architecture, of the mirror that this machine uses.
func newApt(ctx context.Context, dir, suite, arch string) (*apt, error) {
	a := &apt{dir: dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if suite == "" {
		return a, nil
	}
	sites, err := output(ctx, "", "apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", "Component: main")
	if err != nil {
		return nil, err
	}
	site, _, ok := strings.Cut(sites, "\n")
	if !ok {
		return nil, errors.New("apt-get knows no mirror")
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

func (a *apt) run(ctx context.Context, program string, args ...string) (string, error) {
	return output(ctx, a.dir, program, append(slices.Clone(a.args), args...)...)
}

// kernelOf returns the package of the kernel that a package without files stands
// for.
func (a *apt) kernelOf(ctx context.Context, pkg string) (string, error) {
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

func (a *apt) dependencies(ctx context.Context, pkg string) (names []string, err error) {
	out, err := a.run(ctx, "apt-cache", "depends", "--important", pkg)
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: "); ok {
			names = append(names, name)
		}
	}
	return names, err
}

// unpack unpacks a kernel to a directory. Since Linux 7 the package consists of
// others, which have the same version in their names.
func (a *apt) unpack(ctx context.Context, pkg, release, tree string) error {
	if err := os.RemoveAll(tree); err != nil {
		return err
	}
	names, err := a.dependencies(ctx, pkg)
	if err != nil {
		return err
	}
	for _, name := range append(names, pkg) {
		if strings.HasPrefix(name, "linux-") && strings.HasSuffix(name, release) {
			if err := a.unpackOne(ctx, name, tree); err != nil {
				return err
			}
		}
	}
	if err := decompress(ctx, tree); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(tree, "complete"), nil, 0o644)
}

// unpackOne downloads a package, checks it and unpacks it.
func (a *apt) unpackOne(ctx context.Context, pkg, tree string) error {
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
	_, err = output(ctx, "", "dpkg-deb", "-x", files[0], tree)
	return err
}

// check compares a file with the hash that the signed list of packages has.
func (a *apt) check(ctx context.Context, pkg, file string) error {
	shown, err := a.run(ctx, "apt-cache", "show", "--no-all-versions", pkg)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	if !strings.Contains(shown, "SHA256: "+hex.EncodeToString(sum[:])) {
		return fmt.Errorf("%s is not what the list of packages says", file)
	}
	return nil
}

// decompress decompresses modules that are compressed.
func decompress(ctx context.Context, dir string) error {
	var files []string
	err := filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(name, ".ko.xz") {
			files = append(files, name)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		return err
	}
	_, err = output(ctx, "", "xz", append([]string{"--decompress", "--threads=0"}, files...)...)
	return err
}

// output runs a program and returns what it prints.
func output(ctx context.Context, dir, program string, args ...string) (string, error) {
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
