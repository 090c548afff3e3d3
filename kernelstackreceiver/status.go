// SPDX-License-Identifier: Apache-2.0

package kernelstackreceiver

import (
	"errors"
	"slices"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
)

// status is the component's status, which has the errors of all that is sampled. It is safe for concurrent use.
type status struct {
	host component.Host

	mu   sync.Mutex // held while the host is told, so that it is told in order
	errs [][]error  // of each statusOf; nil if it works
}

func newStatus(host component.Host) *status { return &status{host: host} }

// statusOf is the part of the status that one sampler has.
type statusOf struct {
	status *status
	index  int
	what   string // is sampled
}

// of adds a part.
func (s *status) of(what string) statusOf {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, nil)
	return statusOf{s, len(s.errs) - 1, what}
}

// report replaces the errors of a part. Nil errors do not count.
func (o statusOf) report(errs ...error) {
	s := o.status
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs[o.index] = errs
	event := componentstatus.NewEvent(componentstatus.StatusOK)
	if all := s.err(); all != nil {
		event = componentstatus.NewRecoverableErrorEvent(all)
	}
	componentstatus.ReportStatus(s.host, event)
}

// err joins the errors of all parts. One that several parts have is in it once.
func (s *status) err() error {
	var all []error
	for _, err := range slices.Concat(s.errs...) {
		if err != nil && !slices.ContainsFunc(all, func(other error) bool { return other.Error() == err.Error() }) {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}
