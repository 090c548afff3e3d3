// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package locate

import (
	"context"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// observe returns [perfring.ErrUnsupported].
func observe(context.Context, string) ([]Wait, error) { return nil, perfring.ErrUnsupported }
