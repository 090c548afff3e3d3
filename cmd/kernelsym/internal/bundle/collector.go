// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/colmetrics"
)

// maxLog bounds what is read of a log.
const maxLog = 1 << 20

// ours matches the lines of kernelsym's metrics, and of the process's metrics.
var ours = regexp.MustCompile(`^(# (HELP|TYPE) )?(otelcol_processor_kernelsym_|otelcol_receiver_kernelstack_|otelcol_process_)`)

// fetchMetrics returns the metrics of kernelsym that a collector serves, or why there are none.
func fetchMetrics(ctx context.Context, address string) []byte {
	var out bytes.Buffer
	err := colmetrics.Read(ctx, address, func(line []byte) {
		if ours.Match(line) {
			out.Write(line)
			out.WriteByte('\n')
		}
	})
	if err != nil {
		fmt.Fprintf(&out, "# the metrics could not be read: %v\n", err)
	}
	return out.Bytes()
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
