// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// get reads a page of the collector.
func get(url string) (string, error) {
	response, err := http.Get(url) //nolint:noctx // it is on this machine
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// metric returns the sum of a metric of the processor over the points that have the labels, or 0 if
// there are none. A metric without any points is an error, because its name may be wrong.
func (c *collector) metric(name string, labels ...string) (sum float64, err error) {
	text, err := get("http://" + c.metrics + "/metrics")
	if err != nil {
		return 0, err
	}
	found := false
	for line := range strings.Lines(text) {
		of, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if !strings.HasPrefix(of, "otelcol_processor_kernelsym_"+name+"{") {
			continue
		}
		found = true
		if slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(of, label) }) {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	if !found {
		return 0, fmt.Errorf("the collector has no metric %s", name)
	}
	return sum, nil
}
