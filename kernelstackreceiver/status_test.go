// SPDX-License-Identifier: Apache-2.0

package kernelstackreceiver

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/component/componentstatus"
)

// TestStatus: the component is healthy only if everything that it samples is.
func TestStatus(t *testing.T) {
	h := newHost()
	s := newStatus(h)
	on, off := s.of("kernel stacks"), s.of("off-CPU time")
	for _, step := range []struct {
		part statusOf
		err  error
		want componentstatus.Status
		text string
	}{
		{on, nil, componentstatus.StatusOK, ""},
		{off, errors.New("one"), componentstatus.StatusRecoverableError, "one"},
		{on, nil, componentstatus.StatusRecoverableError, "one"},
		{on, errors.New("two"), componentstatus.StatusRecoverableError, "two\none"},
		{off, nil, componentstatus.StatusRecoverableError, "two"},
		{on, nil, componentstatus.StatusOK, ""},
	} {
		step.part.report(step.err)
		event := <-h.events
		assert.Equal(t, step.want, event.Status())
		if step.text != "" {
			assert.EqualError(t, event.Err(), step.text)
		}
	}
}
