// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

func TestExists(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	assert.True(t, Exists(uint32(os.Getpid())))
	assert.False(t, Exists(1<<30), "more than any number")
	kerneltest.Unprivileged(t, func(t *testing.T) {
		assert.True(t, Exists(1), "it belongs to another user")
	})
}
