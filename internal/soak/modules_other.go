//go:build !linux

package main

import (
	"errors"
	"time"
)

func moduleChurn(time.Duration) (*churn, error) { return nil, errors.ErrUnsupported }
