// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Kernel is a kernel of Debian: the package that depends on its present version, the suite that
// has it, and its architecture. Without a suite, the machine's own sources have it (Debian 12).
type Kernel struct{ MetaPackage, Suite, Arch string }

// Kernels are the kernels that tests can boot, by the names that they have on command lines.
var Kernels = map[string]Kernel{
	"5.10":           {"linux-image-cloud-amd64", "bullseye", "amd64"},
	"6.1":            {"linux-image-cloud-amd64", "", "amd64"},
	"6.12":           {"linux-image-6.12-cloud-amd64", "", "amd64"},
	"7":              {"linux-image-cloud-amd64", "trixie-backports", "amd64"},
	"6.12-arm64":     {"linux-image-cloud-arm64", "trixie", "arm64"},
	"6.12-arm64-16k": {"linux-image-arm64-16k", "trixie", "arm64"}, // pages of 16 KiB
}

// KernelNames returns the names in Kernels, separated by commas.
func KernelNames() string {
	return strings.Join(slices.Sorted(maps.Keys(Kernels)), ", ")
}

// KernelByName returns one of Kernels.
func KernelByName(name string) (Kernel, error) {
	k, ok := Kernels[name]
	if !ok {
		return Kernel{}, fmt.Errorf("no kernel %q: there are %s", name, KernelNames())
	}
	return k, nil
}

// Find returns the package of the kernel's present version, and the package manager that has the
// package and downloads to dir.
func (k Kernel) Find(ctx context.Context, dir string) (*Apt, string, error) {
	apt, err := New(ctx, dir, k.Suite, k.Arch)
	if err != nil {
		return nil, "", err
	}
	pkg, err := apt.KernelOf(ctx, k.MetaPackage)
	return apt, pkg, err
}
