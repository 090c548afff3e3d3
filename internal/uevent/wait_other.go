//go:build !linux

package uevent

import "errors"

// Wait is never called: there is no Conn.
func (*Conn) Wait() error { return errors.ErrUnsupported }
