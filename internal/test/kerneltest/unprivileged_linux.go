// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// unprivilegedEnv marks a test binary that was started by Unprivileged.
const unprivilegedEnv = "KERNELSYM_TEST_UNPRIVILEGED"

// Unprivileged runs test as a user without any privilege: in this process if it has none, otherwise
// in a second process that runs only the calling test.
func Unprivileged(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if os.Getenv(unprivilegedEnv) != "" || os.Getuid() != 0 || !inFirstUserNamespace() {
		test(t)
		return
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("/tmp", "kernelsym") //nolint:usetesting // the directories above t.TempDir are closed to others
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o777); err != nil { //nolint:gosec // for another user
		t.Fatal(err)
	}
	name := "/proc/self/exe"
	if !InVM() { // in a virtual machine, others can execute it, and a copy takes seconds
		name = Shared(t, name)
	}
	cmd := exec.CommandContext(t.Context(), name, "-test.run="+only(t), "-test.v")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), unprivilegedEnv+"=1", "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Fatalf("as an unprivileged user: %v\n%s", err, out)
	case bytes.Contains(out, []byte("--- SKIP")):
		t.Skipf("as an unprivileged user:\n%s", out)
	case !bytes.Contains(out, []byte("--- PASS")):
		t.Fatalf("as an unprivileged user the test was not run:\n%s", out)
	}
}
