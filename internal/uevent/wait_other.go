//go:build !linux

package uevent

import (
	"context"
	"errors"
)

// Wait is never called: there is no Conn.
func (*Conn) Wait(context.Context) error { return errors.ErrUnsupported }
