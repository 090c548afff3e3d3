// SPDX-License-Identifier: Apache-2.0

package packs

import (
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

// Expand returns the URL of a pack: {build_id} becomes the build id, {format} the extension of pack files without the
// dot.
func Expand(url, buildID string) string {
	return strings.NewReplacer(BuildIDPlaceholder, buildID, FormatPlaceholder, strings.TrimPrefix(pack.Ext, ".")).Replace(url)
}

// fetchAll fetches packs, one after the other, until ctx is done.
func (s *Store) fetchAll(ctx context.Context) {
	for s.pace.wait(ctx) {
		id, ok := s.next(ctx, atURL)
		if !ok {
			s.pace.allow()
			return
		}
		missed := s.pace.start()
		if s.fetch(ctx, id) {
			missed()
		}
	}
}

// fetch fetches the pack of a request. It reports whether the server has answered that it has none.
func (s *Store) fetch(ctx context.Context, id requestID) (missed bool) {
	err := s.fetchPack(ctx, id.text)
	outcome, reason := outcomeOf(err)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		err = errStopped
	case outcome == broken:
		err = fmt.Errorf("debug_info::url: %w", err)
	default:
		err = fmt.Errorf("debug_info::url: %s: %w", id.text, err)
	}
	s.finish(id, atURL, err)
	return outcome == missing || outcome == refused && reason == Fetch
}

// fetchPack fetches the pack of a build, opens it, and keeps it in the directory if that exists and is writable.
func (s *Store) fetchPack(ctx context.Context, buildID string) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	draft, err := s.dir.create(buildID)
	if err != nil {
		return err
	}
	defer draft.discard()
	if err := s.from.download(ctx, draft, buildID); err != nil {
		return err
	}
	if err := s.load(draft.content(), draft.size, nil, buildID); err != nil {
		return err
	}
	s.noteKept(s.keep(draft, buildID))
	return nil
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

// reasonOf returns why there is no answer. It omits the URL, which can hold secrets, and truncates the text, which can
// quote the server.
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
