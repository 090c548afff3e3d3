// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"errors"
	"time"
)

func moduleChurn(time.Duration) (*churn, error) { return nil, errors.ErrUnsupported }
