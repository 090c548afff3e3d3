// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/moby/sys/capability"
	"golang.org/x/sys/unix"
)

// limitedEnv marks a test binary that was started by Limited.
const limitedEnv = "KERNELSYM_TEST_LIMITED"

// Limits say what a process must do without.
type Limits struct {
	Need   func(testing.TB) // checks, without the limits, what the test needs
	Drop   []capability.Cap // capabilities that the process does not have and cannot get
	Refuse []uint32         // numbers of system calls that fail with EPERM, as with the filters of containers
}

// Limited runs test in a second process, which runs only the calling test, within
// the limits. It needs root.
func Limited(t *testing.T, limits Limits, test func(t *testing.T)) {
	t.Helper()
	if os.Getenv(limitedEnv) != "" {
		for _, c := range limits.Drop {
			if Has(t, c) {
				t.Fatalf("this process still has the capability %v", c)
			}
		}
		test(t)
		return
	}
	limits.Need(t)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run="+only(t), "-test.v")
	cmd.Env = append(os.Environ(), limitedEnv+"=1")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err := startLimited(cmd, limits.apply)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		t.Fatalf("in a process with limits: %v\n%s", err, out.String())
	}
	if strings.Contains(out.String(), "--- SKIP") || !strings.Contains(out.String(), "--- PASS") {
		t.Fatalf("in a process with limits the test was not run:\n%s", out.String())
	}
	t.Logf("in a process with limits:\n%s", out.String())
}

// only returns the value of -test.run that runs only the calling test.
func only(t *testing.T) string {
	return "^" + strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^") + "$"
}

// apply limits the calling thread, and everything that it starts.
func (l Limits) apply() error {
	if err := refuse(l.Refuse); err != nil { // first, because it needs CAP_SYS_ADMIN
		return err
	}
	for _, c := range l.Drop {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil {
			return fmt.Errorf("dropping %v: %w", c, err)
		}
	}
	return nil
}

// refuse makes system calls of the calling thread fail.
func refuse(calls []uint32) error {
	if len(calls) == 0 {
		return nil
	}
	const (
		numberAt = 0 // in struct seccomp_data
		refused  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	)
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: numberAt}}
	for _, number := range calls {
		filter = append(filter,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: number},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: refused})
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	program := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, reflect.ValueOf(program).Pointer(), 0, 0)
	runtime.KeepAlive(program)
	if err != nil {
		return errors.Join(errors.New("refusing system calls"), err)
	}
	return nil
}
