// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// The bounds of fetching.
const (
	maxFetches   = 4 // at a time
	fetchTimeout = 5 * time.Minute
	maxFetched   = 32 << 20 // bytes in a response
)

// The placeholders of a URL.
const (
	BuildIDPlaceholder = "{build_id}"
	FormatPlaceholder  = "{format}"
)

// Expand returns the URL of a pack: {build_id} becomes the build id, {format} the extension of
// pack files without the dot.
func Expand(url, buildID string) string {
	return strings.NewReplacer(BuildIDPlaceholder, buildID, FormatPlaceholder, strings.TrimPrefix(pack.Ext, ".")).Replace(url)
}

// fetch fetches the pack of a wish. It reports whether the server has none.
func (s *Store) fetch(ctx context.Context, id wishID) (missed bool) {
	err := s.fetchPack(ctx, id.text)
	if err != nil && ctx.Err() != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.state.wishes.all[id].step = stepFetch // for the next run of the store
		return false
	}
	missed = err != nil && refusalOf(err).missed()
	switch {
	case err == nil:
	case refusalOf(err).broken:
		err = fmt.Errorf("debug_info::url: %w", err)
	default:
		err = fmt.Errorf("debug_info::url: %s: %w", id.text, err)
	}
	s.settle(id, placeURL, err)
	return missed
}

// fetchPack fetches the pack of a build, opens it, and keeps it in the directory if that exists
// and is writable.
func (s *Store) fetchPack(ctx context.Context, buildID string) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	if s.dir.path == "" {
		return s.fetchToMemory(ctx, buildID)
	}
	draft, err := s.dir.create(buildID)
	switch {
	case err == nil:
	case refusalOf(err).reason == Unreadable: // for example on a read-only file system
		s.noteKept(err)
		return s.fetchToMemory(ctx, buildID)
	default:
		return err
	}
	defer draft.discard()
	if err := s.from.download(ctx, draft, buildID); err != nil {
		return err
	}
	content, err := draft.content()
	if err != nil {
		return err
	}
	if err := s.load(content, draft.size, nil, buildID); err != nil {
		return err
	}
	s.noteKept(s.keep(draft, buildID))
	return nil
}

// fetchToMemory fetches the pack of a build and opens it.
func (s *Store) fetchToMemory(ctx context.Context, buildID string) error {
	var b bytes.Buffer
	if err := s.from.download(ctx, &b, buildID); err != nil {
		return err
	}
	return s.load(&b, int64(b.Len()), nil, buildID)
}

// A fetcher downloads packs from a URL.
type fetcher struct {
	url    string
	limit  int64 // bytes in a response
	client atomic.Pointer[http.Client]
	sent   atomic.Int64 // number of requests
}

// download writes the pack of a build to w.
func (f *fetcher) download(ctx context.Context, w io.Writer, buildID string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, Expand(f.url, buildID), http.NoBody)
	if err != nil {
		return refuseAll(Fetch, err)
	}
	req.Close = true // the next request may come much later, or never
	f.sent.Add(1)
	resp, err := f.client.Load().Do(req)
	if err != nil {
		return refuseAll(Fetch, reasonOf(err))
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return copyTo(w, resp.Body, f.limit)
	case http.StatusNotFound, http.StatusGone:
		return errNotFound
	}
	err = fmt.Errorf("the server answers %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if resp.StatusCode/100 == 4 && resp.StatusCode != http.StatusTooManyRequests {
		return refuse(Fetch, err) // a bucket that may not be listed answers 403 for a missing object
	}
	return refuseAll(Fetch, err)
}

// copyTo copies r to w, up to limit bytes.
func copyTo(w io.Writer, r io.Reader, limit int64) error {
	n, err := io.Copy(w, io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return refuseAll(Fetch, reasonOf(err))
	case n > limit:
		return refuse(TooLarge, fmt.Errorf("the answer is too large: more than %d bytes", limit))
	}
	return nil
}

// reasonOf returns why there is no answer. It omits the URL, which can hold secrets, and
// truncates the text, which can quote the server.
func reasonOf(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	const most = 300 // bytes
	if text := err.Error(); len(text) > most {
		return errors.New(strings.ToValidUTF8(text[:most], "") + "…")
	}
	return err
}
