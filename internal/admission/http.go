// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/kernelsym/kernelsym/internal/sender"
)

// Handler returns a handler that calls next for admitted requests. It belongs after the decompression.
func (g *Gate) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.serve(w, r, next); err != nil {
			g.refused(err)
			code := http.StatusBadRequest
			switch {
			case errors.Is(err, ErrBusy):
				code = http.StatusServiceUnavailable
				w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
			case errors.Is(err, ErrTooLarge):
				code = http.StatusRequestEntityTooLarge
			}
			http.Error(w, err.Error(), code)
		}
	})
}

// serve serves a request, unless it returns an error.
func (g *Gate) serve(w http.ResponseWriter, r *http.Request, next http.Handler) error {
	// The server reads the rest of a body before it sends a refusal. Where it has no deadlines, the error does not matter.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(g.patience))
	host := sender.HostOf(r.RemoteAddr) // confighttp has no client for a unix socket, nor for an address with a zone
	if err := g.enter(r.Context(), host); err != nil {
		return err
	}
	defer g.leave(host)
	_ = control.SetReadDeadline(time.Now().Add(g.patience))
	body, err := io.ReadAll(r.Body)
	err = errors.Join(err, r.Body.Close())
	_ = control.SetReadDeadline(time.Time{})
	if err != nil { // next reports it
		r.Body = io.NopCloser(failing{err})
		next.ServeHTTP(w, r)
		return nil
	}
	n, err := costOf(body, r.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	if err := g.admit(n); err != nil {
		return err
	}
	defer g.release(n)
	r.Body = io.NopCloser(bytes.NewReader(body))
	next.ServeHTTP(w, r)
	return nil
}

func costOf(body []byte, contentType string) (int64, error) {
	if media, _, err := mime.ParseMediaType(contentType); err == nil && media == "application/json" {
		return costJSON(body)
	}
	return cost(body)
}

// failing is a reader that returns an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
