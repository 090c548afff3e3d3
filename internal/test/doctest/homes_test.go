// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/homes"
)

// TestContractHomes verifies that docs/contract.md names, for each rule, the functions that decide it, or what checks
// the rule everywhere. internal/test/mutate verifies that they do decide it.
func TestContractHomes(t *testing.T) {
	needRepository(t)
	all, err := homes.Read(root)
	require.NoError(t, err)
	rules := make(map[string]bool)
	for _, h := range all {
		rules[h.Rule] = true
	}
	assert.Len(t, rules, 32)
}
