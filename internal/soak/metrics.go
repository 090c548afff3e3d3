// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
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

// rewriting returns the time that the processor spent, by its own metric.
func (c *collector) rewriting() (time.Duration, error) {
	const metric = "otelcol_processor_kernelsym_rewrite_duration_sum"
	text, err := get("http://" + c.metrics + "/metrics")
	if err != nil {
		return 0, err
	}
	for scanner := bufio.NewScanner(strings.NewReader(text)); scanner.Scan(); {
		name, value, _ := strings.Cut(scanner.Text(), " ")
		if name, _, _ := strings.Cut(name, "{"); name != metric {
			continue
		}
		var seconds float64
		_, err := fmt.Sscan(value, &seconds)
		return time.Duration(seconds * float64(time.Second)), err
	}
	return 0, fmt.Errorf("no metric %s", metric)
}
