// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x)

package bpf

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Floor makes the calls needed to list all programs with the details that want asks for, and
// ignores their results: no list can cost less. It serves as the baseline of benchmarks, and
// returns the number of programs.
func (r *Reader) Floor(want Want) (n int, err error) {
	for id := uint32(0); ; n++ {
		next := idAttr{id: id}
		if _, err = call(unix.BPF_PROG_GET_NEXT_ID, &next); errors.Is(err, unix.ENOENT) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		id = next.next
		fd, err := open(unix.BPF_PROG_GET_FD_BY_ID, id)
		if err != nil {
			return n, programError(id, err)
		}
		err = getInfo(fd, r.ask(want))
		if err := errors.Join(err, unix.Close(fd)); err != nil {
			return n, programError(id, err)
		}
	}
}
