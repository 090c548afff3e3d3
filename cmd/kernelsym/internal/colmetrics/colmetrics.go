// SPDX-License-Identifier: Apache-2.0

// Package colmetrics reads the metrics that a collector serves in the text format of Prometheus.
package colmetrics

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	timeout  = 10 * time.Second
	maxBytes = 16 << 20
)

// Read calls line with each line that a collector serves at a URL, without its end. line does not keep it. Errors do not
// contain the URL, which can contain a name or a password.
func Read(ctx context.Context, address string, line func([]byte)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := read(ctx, address, line)
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err
	}
	return err
}

func read(ctx context.Context, address string, line func([]byte)) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answers %s", response.Status)
	}
	lines := bufio.NewScanner(io.LimitReader(response.Body, maxBytes))
	lines.Buffer(nil, maxBytes)
	for lines.Scan() {
		line(lines.Bytes())
	}
	return lines.Err()
}
