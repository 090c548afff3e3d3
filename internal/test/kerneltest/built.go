// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"os"
	"path/filepath"
	"testing"
)

// Binaries that `make test` builds and names in the environment.
const (
	Collector = "KERNELSYM_COLLECTOR"
	Tool      = "KERNELSYM_TOOL"
)

// Built returns the file name of a binary. It skips the test if the environment does not name one,
// and fails it if the file does not exist.
func Built(t testing.TB, binary string) string {
	t.Helper()
	name := os.Getenv(binary)
	if name == "" {
		t.Skipf("%s is not set: built programs are not tested; `make test` sets it", binary)
	}
	if _, err := os.Stat(name); err != nil {
		t.Fatalf("%s: %v", binary, err)
	}
	return name
}

// Shared returns the name of a copy of a binary that every user can execute.
func Shared(t testing.TB, binary string) string {
	t.Helper()
	content, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "kernelsym") //nolint:usetesting // the directories above t.TempDir are closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // for another user
		t.Fatal(err)
	}
	name := filepath.Join(dir, "shared")
	if err := os.WriteFile(name, content, 0o755); err != nil { //nolint:gosec // for another user
		t.Fatal(err)
	}
	return name
}
