// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package uevent

import (
	"context"
	"errors"
	"time"
)

// A Conn receives events, on Linux.
type Conn struct{}

// Dial returns errors.ErrUnsupported.
func Dial() (*Conn, error) { return nil, errors.ErrUnsupported }

// Wait is never called: there is no Conn.
func (*Conn) Wait(context.Context, time.Time) error { return errors.ErrUnsupported }

// Poll is never called: there is no Conn.
func (*Conn) Poll() (Event, bool, error) { return Event{}, false, errors.ErrUnsupported }

// Close is never called: there is no Conn.
func (*Conn) Close() error { return nil }
