// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// PacksEnv is the environment variable that names a directory with packs of the running
// kernel, which `make test-packs` makes.
const PacksEnv = "KERNELSYM_PACKS"

// Packs opens the packs of the running kernel that `make test-packs` made, by build id. It skips
// the test if there are none.
func Packs(t testing.TB) map[string]*pack.Pack {
	t.Helper()
	dir := os.Getenv(PacksEnv)
	if dir == "" {
		t.Skip("no packs of the running kernel: that they are right is tested by `make test-packs` only")
	}
	return PacksIn(t, dir)
}

// PacksIn opens the packs in a directory, by build id. It fails the test if there are none.
func PacksIn(t testing.TB, dir string) map[string]*pack.Pack {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+pack.Ext))
	if err != nil || len(files) == 0 {
		t.Fatalf("no packs in %s (%v)", dir, err)
	}
	packs := make(map[string]*pack.Pack)
	for _, name := range files {
		p, err := OpenPack(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		packs[p.Info().BuildID] = p
	}
	return packs
}

// OpenPack reads and checks a pack.
func OpenPack(name string) (*pack.Pack, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return pack.Read(f, info.Size())
}
