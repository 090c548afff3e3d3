// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x)

package bpf

import (
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// EnableStats makes the kernel count the runs of all BPF programs and their time, until the
// returned Closer is closed or the process ends, however it ends. Counting adds a few dozen
// nanoseconds to each run.
func EnableStats() (io.Closer, error) {
	counting, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	switch err := classify(err); {
	case err == nil:
		return counting, nil
	case errors.Is(err, ErrUnsupported):
		return nil, fmt.Errorf("%w: %w", ErrStats, err)
	case errors.Is(err, ErrPermission):
		return nil, ErrStatsPermission // ErrPermission is about listing programs
	default:
		return nil, fmt.Errorf("counting the runs of BPF programs: %w", err)
	}
}
