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
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kelf"
)

// maxFetched bounds the size of a file. The largest, a generic kernel with debug information, has a
// gigabyte.
const maxFetched = 8 << 30

// maxSilence is how long elfutils waits for a server (debuginfod-client-config(7),
// DEBUGINFOD_TIMEOUT).
const maxSilence = 90 * time.Second

// get downloads a URL to a file. The error wraps [ErrSilent] if nothing arrived for too long,
// either between the request and the first byte or between two bytes.
func (d *Debuginfod) get(ctx context.Context, from, to string, o *Options) (module string, err error) {
	silence := cmp.Or(d.Silence, maxSilence)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(silence, func() { cancel(fmt.Errorf("%s: %w for %v", from, ErrSilent, silence)) })
	defer timer.Stop()
	module, err = d.download(ctx, from, to, arrivals{o, func() { timer.Reset(silence) }})
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, ErrSilent) {
		return "", cause
	}
	return module, err
}

// download downloads a URL to a file.
func (d *Debuginfod) download(ctx context.Context, from, to string, a arrivals) (module string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return "", err
	}
	response, err := d.Client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	a.arrived()
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

// arrivals counts the bytes that are written to it, and calls arrived each time.
type arrivals struct {
	o       *Options
	arrived func()
}

func (a arrivals) Write(p []byte) (int, error) {
	a.arrived()
	a.o.add(int64(len(p)))
	return len(p), nil
}
