//go:build !linux

package main

import "errors"

func moduleChurn() (*churn, error) { return nil, errors.ErrUnsupported }
