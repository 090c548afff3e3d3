// SPDX-License-Identifier: Apache-2.0

package otelcol

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// A Status is what the health check extension says of a component, or of several: then
// these stand below it.
type Status struct {
	Status     string             `json:"status"` // as StatusOK
	Error      string             `json:"error"`
	Components map[string]*Status `json:"components"`
}

// Of returns the status of what has these names, one below the other, and an empty one
// if there is nothing like that.
func (s *Status) Of(names ...string) *Status {
	for _, name := range names {
		if s = s.Components[name]; s == nil {
			return new(Status)
		}
	}
	return s
}

// ReadStatus reads the status of a collector and all its components from the health
// check extension, which listens on an address. Its error is that the collector does
// not answer, or says that it is not healthy.
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
