// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package perfring

import (
	"context"
	"fmt"
	"io/fs"
	"runtime"
	"time"
)

// A Reader reads the rings of all CPUs, on Linux.
type Reader struct{}

// Open returns ErrUnsupported.
func Open(Options) (*Reader, error) {
	return nil, fmt.Errorf("%w: %s is not Linux", ErrUnsupported, runtime.GOOS)
}

// CheckCgroups returns ErrUnsupported.
func CheckCgroups() error { return ErrUnsupported }

// CgroupID is never called: there are no records.
func CgroupID(fs.FileInfo) uint64 { return 0 }

// CgroupWriter is never called: there are no records.
func CgroupWriter(fs.FileInfo) (uid uint32, only bool) { return 0, false }

// Wait is never called: there is no Reader.
func (*Reader) Wait(context.Context, time.Time) error { return ErrUnsupported }

// Poll is never called: there is no Reader.
func (*Reader) Poll() Batch { return Batch{} }

// Flush is never called: there is no Reader.
func (*Reader) Flush() Batch { return Batch{} }

// RefreshCPUs is never called: there is no Reader.
func (*Reader) RefreshCPUs(bool) error { return ErrUnsupported }

// MissesCPU is never called: there is no Reader.
func (*Reader) MissesCPU() bool { return false }

// Pause is never called: there is no Reader.
func (*Reader) Pause() error { return ErrUnsupported }

// Resume is never called: there is no Reader.
func (*Reader) Resume() error { return ErrUnsupported }

// CPUs is never called: there is no Reader.
func (*Reader) CPUs() []int { return nil }

// Tasks is never called: there is no Reader.
func (*Reader) Tasks() *int { return nil }

// BytesPerCPU is never called: there is no Reader.
func (*Reader) BytesPerCPU() (int, error) { return 0, ErrUnsupported }

// Close is never called: there is no Reader.
func (*Reader) Close() error { return nil }

// Now is never needed: there are no records.
func (Clock) Now() int64 { return 0 }

// Exists returns true: nothing is known about threads.
func Exists(uint32) bool { return true }

// Prioritize changes nothing: there are no rings.
func Prioritize() (undo func()) { return func() {} }

// A Thread records the switches of one thread, on Linux.
type Thread struct{}

// OpenThread returns ErrUnsupported.
func OpenThread() (*Thread, error) { return nil, ErrUnsupported }

// Records is never called: there is no Thread.
func (*Thread) Records() ([]Record, error) { return nil, ErrUnsupported }

// Close is never called: there is no Thread.
func (*Thread) Close() error { return nil }
