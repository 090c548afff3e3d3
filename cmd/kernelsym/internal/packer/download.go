// SPDX-License-Identifier: Apache-2.0

package packer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kelf"
)

// maxFetched bounds the size of a file. The largest, a generic kernel with debug information, has a
// gigabyte.
const maxFetched = 8 << 30

// A server must send minArrived bytes in each interval of that length, as elfutils demands it
// (debuginfod-client-config(7), DEBUGINFOD_TIMEOUT).
const (
	patience   = 90 * time.Second
	minArrived = 100 << 10
)

// get downloads a URL to a file. The error wraps [ErrSlow] if too little arrived in an interval. The first interval begins
// with the request; the last need not be a whole one.
func (d *Debuginfod) get(ctx context.Context, from, to string, o *Options) (module string, err error) {
	interval := cmp.Or(d.Patience, patience)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := &arrivals{o: o}
	go func() {
		intervals := time.NewTicker(interval)
		defer intervals.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-intervals.C:
				if n := a.recent.Swap(0); n < minArrived {
					cancel(fmt.Errorf("%s: %w: %d bytes in %v", from, ErrSlow, n, interval))
				}
			}
		}
	}()
	module, err = d.download(ctx, from, to, a)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, ErrSlow) {
		return "", cause
	}
	return module, err
}

// download downloads a URL to a file.
func (d *Debuginfod) download(ctx context.Context, from, to string, a *arrivals) (module string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return "", err
	}
	response, err := d.Client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", from, response.Status)
	}
	// debuginfod(8), "HTTP HEADERS"
	if name, ok := kelf.ModuleName(response.Header.Get("X-Debuginfod-File")); ok {
		module = name
	}
	f, err := os.Create(to)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	a.o.grow(max(response.ContentLength, 0))
	n, err := io.Copy(f, io.TeeReader(io.LimitReader(response.Body, maxFetched+1), a))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", from, err)
	case n > maxFetched:
		return "", fmt.Errorf("%s: %w", from, kelf.ErrTooLarge)
	}
	return module, nil
}

// arrivals counts the bytes that are written to it.
type arrivals struct {
	o      *Options
	recent atomic.Int64 // bytes in the current interval
}

func (a *arrivals) Write(p []byte) (int, error) {
	a.recent.Add(int64(len(p)))
	a.o.add(int64(len(p)))
	return len(p), nil
}
