package kerneltest

import (
	"os"
	"testing"
)

// Binaries that `make test` builds and names in the environment.
const (
	Collector = "KERNELSYM_COLLECTOR"
	Tool      = "KERNELSYM_TOOL"
)

// Built returns the file name of a binary. It skips the test if the environment
// does not name one, and fails it if that is not there.
func Built(t testing.TB, binary string) string {
	t.Helper()
	name := os.Getenv(binary)
	if name == "" {
		t.Skipf("%s is not set: what was built is not tested; `make test` does", binary)
	}
	if _, err := os.Stat(name); err != nil {
		t.Fatalf("%s: %v", binary, err)
	}
	return name
}
