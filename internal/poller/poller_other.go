// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package poller

import (
	"context"
	"errors"
	"time"
)

// A Poller waits for files, on Linux.
type Poller struct{}

// New returns errors.ErrUnsupported.
func New() (*Poller, error) { return nil, errors.ErrUnsupported }

// Sleep is never called: there is no Poller.
func (*Poller) Sleep(context.Context, time.Time) error { return errors.ErrUnsupported }

// Close is never called: there is no Poller.
func (*Poller) Close() error { return nil }

// everyOrStep returns at once: nothing reports when the clock is set.
func everyOrStep(context.Context, time.Duration, func()) {}
