// SPDX-License-Identifier: Apache-2.0

package otelcol

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// A Status is the status of a component in the health check extension, or of several, which are
// then in Components.
type Status struct {
	Status     string             `json:"status"` // such as StatusOK
	Error      string             `json:"error"`
	Components map[string]*Status `json:"components"`
}

// Of returns the status with these names, each one level below the one before. It returns an empty
// status if there is none.
func (s *Status) Of(names ...string) *Status {
	for _, name := range names {
		if s = s.Components[name]; s == nil {
			return new(Status)
		}
	}
	return s
}

// ReadStatus reads the status of a collector and all its components from the health check
// extension, which listens on an address. It returns an error if the collector does not answer, or
// is not healthy.
func ReadStatus(ctx context.Context, client *http.Client, address string) (*Status, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/status?verbose", nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("health: %s", response.Status)
	}
	s := new(Status)
	return s, json.NewDecoder(response.Body).Decode(s)
}
