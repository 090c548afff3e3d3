// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x)

package bpf

import (
	"errors"
	"fmt"
	"io"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// call calls bpf(2).
func call[A idAttr | infoAttr](cmd uintptr, attr *A) (int, error) {
	for {
		r, _, errno := unix.Syscall(unix.SYS_BPF, cmd, uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr))
		switch errno {
		case 0:
			return int(r), nil
		case unix.EINTR, unix.EAGAIN:
			continue
		}
		return 0, classify(errno)
	}
}

// classify adds ErrPermission or ErrUnsupported to an error of bpf(2) that means it.
func classify(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: %w", ErrPermission, err)
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return err
}

// idAttr is the struct for BPF_*_GET_*_ID of union bpf_attr.
type idAttr struct {
	id   uint32
	next uint32
	_    uint32 // open_flags
}

// infoAttr is the struct for BPF_OBJ_GET_INFO_BY_FD of union bpf_attr.
type infoAttr struct {
	fd   uint32
	len  uint32
	info unsafe.Pointer
}

// Next returns the lowest id of a program above an id, or io.EOF if there is none.
func (*Reader) Next(after uint32) (id uint32, err error) {
	next, err := ebpf.ProgramGetNextID(ebpf.ProgramID(after))
	if errors.Is(err, unix.ENOENT) {
		return 0, io.EOF
	}
	if err != nil {
		return 0, fmt.Errorf("listing BPF programs: %w", classify(err))
	}
	return uint32(next), nil
}

// open returns a file descriptor of the object with that id. The caller must close it.
func open(cmd uintptr, id uint32) (fd int, err error) {
	return call(cmd, &idAttr{id: id})
}

// getInfo reads the kernel's information about an object into info and the buffers that it
// points to.
func getInfo[I programInfo | btfInfo](fd int, info *I) error {
	_, err := call(unix.BPF_OBJ_GET_INFO_BY_FD,
		&infoAttr{fd: uint32(fd), len: uint32(unsafe.Sizeof(*info)), info: unsafe.Pointer(info)})
	return err
}

// pointer returns the address of a slice's elements.
func pointer[E any](s []E) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

// isGone reports whether the error means that no object has the id.
func isGone(err error) bool { return errors.Is(err, unix.ENOENT) }
