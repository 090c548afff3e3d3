package perfring

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestEachLostRecordIsToldOnce has the kernel tell of the same losses twice, in
// either order.
func TestEachLostRecordIsToldOnce(t *testing.T) {
	var l losses
	assert.Equal(t, uint64(5), l.upTo(5), "asked")
	assert.Zero(t, l.upTo(5))
	assert.Zero(t, l.announce(3), "three of the five")
	assert.Equal(t, uint64(1), l.announce(3), "the other two, and one more")
	assert.Zero(t, l.upTo(6))
	assert.Equal(t, uint64(4), l.announce(4))
	assert.Equal(t, uint64(10), l.upTo(20))
	assert.Zero(t, l.announce(10))
	assert.Zero(t, l.upTo(20))
}
