// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"time"
)

// Bounds on what is read from a collector.
const (
	metricsTimeout = 10 * time.Second
	maxMetrics     = 16 << 20
	maxLog         = 1 << 20
)

// ours matches the lines of kernelsym's metrics, and of the process's metrics.
var ours = regexp.MustCompile(`^(# (HELP|TYPE) )?(otelcol_processor_kernelsym_|otelcol_receiver_kernelstack_|otelcol_process_)`)

// fetchMetrics returns the metrics of kernelsym that a collector serves, or why there are none.
func fetchMetrics(ctx context.Context, address string) []byte {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	var out bytes.Buffer
	if err := filterMetrics(ctx, &out, address); err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // without the URL, which can contain a name or a password
		}
		fmt.Fprintf(&out, "# the metrics could not be read: %v\n", err)
	}
	return out.Bytes()
}

func filterMetrics(ctx context.Context, out *bytes.Buffer, address string) error {
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
	lines := bufio.NewScanner(io.LimitReader(response.Body, maxMetrics))
	lines.Buffer(nil, maxMetrics)
	for lines.Scan() {
		if ours.Match(lines.Bytes()) {
			out.Write(lines.Bytes())
			out.WriteByte('\n')
		}
	}
	return lines.Err()
}

// readEnd returns the last lines of a file, or why there are none.
func readEnd(name string) []byte {
	text, err := readTail(name)
	if err != nil {
		return fmt.Appendf(nil, "the log could not be read: %v\n", err)
	}
	return text
}

func readTail(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	from := max(0, size-maxLog)
	text, err := io.ReadAll(io.NewSectionReader(f, from, size-from))
	if err != nil {
		return nil, err
	}
	if from > 0 { // the tail begins in the middle of a line, perhaps of an address
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return text, nil
}
