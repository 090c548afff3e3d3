// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest/debian"
)

// A kernel is a kernel that can be booted.
type kernel struct {
	release string // as uname -r prints it
	image   string // file
	modules string // directory of its modules, not compressed
	*platform
}

var errCannotInstall = errors.New("no apt-get, or not root, to get qemu and kernels")

// install installs what the kernels need and this machine lacks.
func install(ctx context.Context, names []string) error {
	needed := map[string]string{"xz": "xz-utils"} // packages by program
	for _, name := range names {
		if k, ok := debian.Kernels[name]; ok {
			needed[platforms[k.Arch].qemu] = platforms[k.Arch].pkg
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
	if _, err := debian.Output(ctx, "", "apt-get", "update", "-q"); err != nil {
		return err
	}
	_, err := debian.Output(ctx, "", "apt-get", append([]string{"install", "-q", "-y", "--no-install-recommends"}, missing...)...)
	return err
}

// getKernel returns a kernel by its name in debian.Kernels. It downloads the kernel unless dir has
// the present version.
func getKernel(ctx context.Context, dir, name string) (*kernel, error) {
	from, err := debian.KernelByName(name)
	if err != nil {
		return nil, err
	}
	apt, pkg, err := from.Find(ctx, dir)
	if err != nil {
		return nil, err
	}
	release := debian.Release(pkg)
	tree := filepath.Join(dir, pkg)
	if err := errors.Join(apt.Unpack(ctx, tree, pkg), decompress(ctx, tree)); err != nil {
		return nil, err
	}
	modules, modulesErr := firstOf(
		filepath.Join(tree, "lib", "modules", release),
		filepath.Join(tree, "usr", "lib", "modules", release), // since Debian 13
	)
	image, imageErr := firstOf(
		filepath.Join(tree, "boot", "vmlinuz-"+release),
		filepath.Join(modules, "vmlinuz"), // since Linux 7
	)
	return &kernel{release, image, modules, platforms[from.Arch]}, errors.Join(modulesErr, imageErr)
}

// firstOf returns the first file that exists.
func firstOf(files ...string) (string, error) {
	for _, file := range files {
		if _, err := os.Stat(file); err == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("none of %v exists", files)
}

// decompress decompresses compressed modules.
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
	_, err = debian.Output(ctx, "", "xz", append([]string{"--decompress", "--threads=0"}, files...)...)
	return err
}
