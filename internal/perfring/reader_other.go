//go:build !linux

package perfring

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// A Reader reads the rings of all CPUs, on Linux.
type Reader struct{}

// Open returns ErrUnsupported.
func Open(Options) (*Reader, error) {
	return nil, fmt.Errorf("%w: %s is not Linux", ErrUnsupported, runtime.GOOS)
}

// Read is never called: there is no Reader.
func (*Reader) Read(context.Context, time.Time) ([]Record, error) { return nil, ErrUnsupported }

// Flush is never called: there is no Reader.
func (*Reader) Flush() []Record { return nil }

// Close is never called: there is no Reader.
func (*Reader) Close() error { return nil }

// Now is never needed: there are no records.
func (Clock) Now() int64 { return 0 }
