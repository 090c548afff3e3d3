// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import (
	"errors"
	"os"
	"time"
)

func cpu() time.Duration { return 0 }

func maxRSS(*os.ProcessState) (int64, error) { return 0, errors.ErrUnsupported }
