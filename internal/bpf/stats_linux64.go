// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x)

package bpf

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// statsAttr is the struct for BPF_ENABLE_STATS of union bpf_attr.
type statsAttr struct {
	kind uint32 // enum bpf_stats_type
}

// EnableStats makes the kernel count the runs of all BPF programs and their time, until the
// returned Closer is closed or the process ends, however it ends. Counting adds a few dozen
// nanoseconds to each run.
func EnableStats() (io.Closer, error) {
	fd, err := call(unix.BPF_ENABLE_STATS, &statsAttr{kind: unix.BPF_STATS_RUN_TIME})
	if errors.Is(err, ErrUnsupported) {
		return nil, fmt.Errorf("%w: %w", ErrStats, err)
	}
	if errors.Is(err, ErrPermission) {
		return nil, ErrStatsPermission // ErrPermission is about listing programs
	}
	if err != nil {
		return nil, fmt.Errorf("counting the runs of BPF programs: %w", err)
	}
	return os.NewFile(uintptr(fd), "bpf-stats"), nil
}
