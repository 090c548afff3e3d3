// SPDX-License-Identifier: Apache-2.0

package plural

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOf(t *testing.T) {
	assert.Equal(t, "0 modules", Of(0, "module"))
	assert.Equal(t, "1 module", Of(1, "module"))
	assert.Equal(t, "2 modules", Of(2, "module"))
}
