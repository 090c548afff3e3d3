// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"encoding/binary"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestGuest runs a guest: each sample taken in it says so, and has no stack.
func TestGuest(t *testing.T) {
	needKVM(t)
	opts := options()
	opts.Event = Sampling{Frequency: uint64(kerneltest.Hertz(997))}
	r := open(t, opts)
	tid := runGuest(t)
	inGuest := func(rec Record) bool { return rec.Type == TypeSample && rec.TID == tid && rec.Guest }
	for _, rec := range readUntil(t, r, inGuest) {
		if rec.Guest { // also in other virtual machines, which have other threads
			assert.Equal(t, TypeSample, rec.Type)
			assert.Empty(t, rec.Stack)
		}
	}
}

// needKVM skips the test if no guest can run on the CPU itself.
func needKVM(t *testing.T) {
	t.Helper()
	if kerneltest.InVM() {
		require.NoError(t, kerneltest.LoadModule("kvm_amd")) // qemu's CPU is an AMD
		return
	}
	for _, module := range []string{"kvm_amd", "kvm_intel"} {
		if _, err := os.Stat("/sys/module/" + module); err == nil {
			return
		}
	}
	t.Skip("neither kvm_amd nor kvm_intel is loaded: samples of real guests are not tested")
}

// The requests of /dev/kvm (include/uapi/linux/kvm.h).
const (
	kvmCreateVM      = 0xae01
	kvmVCPUMmapSize  = 0xae04
	kvmCreateVCPU    = 0xae41
	kvmSetUserMemory = 0x4020ae46
	kvmRun           = 0xae80
	kvmSetRegs       = 0x4090ae82
	kvmGetSregs      = 0x8138ae83
	kvmSetSregs      = 0x4138ae84
)

// guestCode counts down and halts, in real mode: mov ecx, 10000000; loop with ecx; hlt.
const guestCode = "\x66\xb9\x80\x96\x98\x00\x67\xe2\xfd\xf4"

// guestBase is the address of the code in the memory of the guest.
const guestBase = 0x1000

// runGuest runs a guest until the test ends, and returns its thread.
func runGuest(t *testing.T) (tid uint32) {
	t.Helper()
	vcpu := newVCPU(t)
	var stop atomic.Bool
	started, ended := make(chan uint32), make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		started <- uint32(unix.Gettid())
		var err error
		for err == nil && !stop.Load() {
			err = runVCPU(vcpu)
		}
		ended <- err
	}()
	t.Cleanup(func() {
		stop.Store(true)
		require.NoError(t, <-ended)
	})
	return <-started
}

// runVCPU runs the guest's code from its beginning until it halts.
func runVCPU(vcpu int) error {
	regs := make([]byte, 144) // struct kvm_regs
	binary.NativeEndian.PutUint64(regs[128:], guestBase)
	binary.NativeEndian.PutUint64(regs[136:], 2) // the bit of the flags that is always set
	_, err := ioctl(vcpu, kvmSetRegs, unsafe.Pointer(&regs[0]))
	if err != nil {
		return err
	}
	return kerneltest.Uninterrupted(func() error {
		_, err := ioctl(vcpu, kvmRun, nil)
		return err
	})
}

// newVCPU returns the only CPU of a guest with a page of memory.
func newVCPU(t *testing.T) (vcpu int) {
	t.Helper()
	call := func(fd int, request uintptr, arg unsafe.Pointer) int {
		result, err := ioctl(fd, request, arg)
		require.NoError(t, err, "%#x", request)
		return result
	}
	closeLater := func(fd int) int {
		t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
		return fd
	}
	mapLater := func(fd, size, flags int) []byte {
		mapping, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, unix.Munmap(mapping)) })
		return mapping
	}
	kvm, err := unix.Open("/dev/kvm", unix.O_RDWR|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	closeLater(kvm)
	vm := closeLater(call(kvm, kvmCreateVM, nil))
	memory := mapLater(-1, os.Getpagesize(), unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	copy(memory, guestCode)
	region := struct { // kvm_userspace_memory_region
		slot, flags         uint32
		start, size, memory uint64
	}{start: guestBase, size: uint64(len(memory)), memory: uint64(uintptr(unsafe.Pointer(&memory[0])))}
	call(vm, kvmSetUserMemory, unsafe.Pointer(&region))
	vcpu = closeLater(call(vm, kvmCreateVCPU, nil))
	mapLater(vcpu, call(kvm, kvmVCPUMmapSize, nil), unix.MAP_SHARED)

	sregs := make([]byte, 312) // struct kvm_sregs
	call(vcpu, kvmGetSregs, unsafe.Pointer(&sregs[0]))
	clear(sregs[:8])    // the base of the code segment
	clear(sregs[12:14]) // its selector
	call(vcpu, kvmSetSregs, unsafe.Pointer(&sregs[0]))
	return vcpu
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) (int, error) {
	result, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
	if errno != 0 {
		return 0, errno
	}
	return int(result), nil
}
