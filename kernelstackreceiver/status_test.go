// SPDX-License-Identifier: Apache-2.0

package kernelstackreceiver

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/component/componentstatus"
)

// TestStatus: the component is healthy only if everything that it samples is. An error that both parts have is reported once.
func TestStatus(t *testing.T) {
	h := newHost()
	s := newStatus(h)
	on, off := s.of("kernel stacks"), s.of("off-CPU time")
	for _, step := range []struct {
		part statusOf
		errs []error
		want componentstatus.Status
		text string
	}{
		{on, nil, componentstatus.StatusOK, ""},
		{off, []error{errors.New("one")}, componentstatus.StatusRecoverableError, "one"},
		{on, []error{nil, nil}, componentstatus.StatusRecoverableError, "one"},
		{on, []error{errors.New("two"), errors.New("one")}, componentstatus.StatusRecoverableError, "two\none"},
		{off, []error{nil, errors.New("three")}, componentstatus.StatusRecoverableError, "two\none\nthree"},
		{off, nil, componentstatus.StatusRecoverableError, "two\none"},
		{on, nil, componentstatus.StatusOK, ""},
	} {
		step.part.report(step.errs...)
		event := <-h.events
		assert.Equal(t, step.want, event.Status())
		if step.text != "" {
			assert.EqualError(t, event.Err(), step.text)
		}
	}
}
