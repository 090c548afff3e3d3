// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"testing"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// root is the root of the repository, relative to this directory.
const root = "../../../"

// needRepository skips a test that reads pages or code if they are not available.
func needRepository(t *testing.T) {
	t.Helper()
	if kerneltest.InVM() {
		t.Skip("neither the pages nor the code are in the virtual machine")
	}
}
