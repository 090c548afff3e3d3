// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"fmt"
	"os"
	"testing"
)

// SwitchCPU takes a CPU offline or online. The end of the test takes it online.
func SwitchCPU(t testing.TB, cpu int, online bool) {
	t.Helper()
	NeedVM(t)
	file := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", cpu)
	if _, err := os.Stat(file); err != nil {
		t.Skipf("CPU %d cannot be taken offline (%v): CPUs that come and go are not tested", cpu, err)
	}
	set := func(online bool) error {
		state := "0"
		if online {
			state = "1"
		}
		return os.WriteFile(file, []byte(state), 0)
	}
	if err := set(online); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set(true); err != nil {
			t.Error(err)
		}
	})
}
