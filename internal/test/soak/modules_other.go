// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "errors"

func moduleChurn() (*churn, error) { return nil, errors.ErrUnsupported }
