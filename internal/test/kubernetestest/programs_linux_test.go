// SPDX-License-Identifier: Apache-2.0

package kubernetestest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest/debian"
)

// programsEnv names the directory that has the programs of Kubernetes, and gets Debian's packages.
const programsEnv = "KERNELSYM_KUBERNETES"

func kubernetesProgram(name string) string { return filepath.Join(os.Getenv(programsEnv), name) }

// debianFile returns a file of a package that is unpacked, not installed: no service of it begins to run.
func debianFile(name string) string { return filepath.Join(os.Getenv(programsEnv), "debian", name) }

// The Debian packages that are only unpacked, and those that must be installed, by a program in each.
var (
	unpacked  = []string{"containerd", "runc", "etcd-server", "containernetworking-plugins", "busybox-static"}
	installed = map[string]string{"iptables": "iptables", "conntrack": "conntrack", "ipset": "ipset", "ip": "iproute2", "nsenter": "util-linux"}
)

// TestMain gets what the tests need. Without all of it, they fail.
func TestMain(m *testing.M) {
	if os.Getenv(programsEnv) == "" {
		fmt.Fprintf(os.Stderr, "%s is not set: run `make test-kubernetes`\n", programsEnv)
		os.Exit(1)
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "a cluster needs root")
		os.Exit(1)
	}
	if err := getPackages(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// getPackages installs and unpacks the packages that are missing.
func getPackages(ctx context.Context) error {
	var missing []string
	for program, pkg := range installed {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, pkg)
		}
	}
	tree := debianFile("")
	_, err := os.Stat(tree)
	if len(missing) > 0 || errors.Is(err, os.ErrNotExist) {
		if _, err := debian.Output(ctx, "", "apt-get", "update", "-q"); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		args := append([]string{"install", "-q", "-y", "--no-install-recommends"}, missing...)
		if _, err := debian.Output(ctx, "", "apt-get", args...); err != nil {
			return err
		}
	}
	apt, err := debian.New(ctx, os.Getenv(programsEnv), "", runtime.GOARCH)
	if err != nil {
		return err
	}
	return apt.Unpack(ctx, tree, unpacked...)
}
