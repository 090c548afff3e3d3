// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// roundTrip answers requests.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func answer(status int, body []byte) *http.Response {
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(bytes.NewReader(body))}
}

const packsURL = "https://packs.example/v/{build_id}.{format}"

// newFetching returns a store that fetches packs with do.
func newFetching(opts Options, do roundTrip) *Store {
	opts.URL, opts.MaxBytes = packsURL, plenty
	if opts.MaxDisk == 0 {
		opts.MaxDisk = plenty
	}
	s := New(opts)
	s.SetClient(&http.Client{Transport: do})
	return s
}

// TestFetch fetches over TLS from a server that redirects, and keeps the pack for another
// store.
func TestFetch(t *testing.T) {
	var asked atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("/old/", func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, strings.Replace(req.URL.Path, "/old/", "/new/", 1), http.StatusMovedPermanently)
	})
	mux.HandleFunc("/new/"+first+".kspack", func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write(packOf(t, first))
	})
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	authorities := x509.NewCertPool()
	authorities.AddCert(server.Certificate())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}}

	dir := filepath.Join(t.TempDir(), "packs") // the store creates it
	opts := Options{Directory: dir, URL: server.URL + "/old/{build_id}.{format}", MaxBytes: plenty, MaxDisk: plenty}
	for range 2 {
		s := New(opts)
		s.SetClient(&http.Client{Transport: transport})
		r := run(t, s)
		r.Use("", []string{first}, nil)
		require.Eventually(t, func() bool { return r.has(first) }, time.Minute, 10*time.Millisecond)
		r.stop()
		assert.Equal(t, int32(1), asked.Load(), "the second has it from the directory")
	}
	info, err := os.Stat(filepath.Join(dir, fetchedDir, first+pack.Ext))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o644), info.Mode())
	assert.Len(t, filesIn(t, filepath.Join(dir, fetchedDir)), 1)

	opts.Directory = "" // then it is only in memory
	s := New(opts)
	s.SetClient(&http.Client{Transport: transport})
	r := run(t, s)
	r.Use("", []string{first}, nil)
	require.Eventually(t, func() bool { return r.has(first) }, time.Minute, 10*time.Millisecond)
	r.stop()
	assert.Equal(t, int32(2), asked.Load())
}

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// TestFetchesAreFew asks for many packs again and again. The next request comes after the interval of a download, unless
// the server has answered before that it has no such pack.
func TestFetchesAreFew(t *testing.T) {
	var ids []string
	for i := range 100 {
		ids = append(ids, buildid.FileID(time.Duration(i).String()))
	}
	for name, tt := range map[string]struct {
		status   int
		takes    time.Duration
		interval time.Duration
		most     int64 // requests in an hour
	}{
		"missing":         {http.StatusNotFound, 0, missInterval, 700},
		"refused":         {http.StatusForbidden, 0, missInterval, 700},
		"missing, late":   {http.StatusNotFound, 300 * time.Millisecond, 300 * time.Millisecond, 700},
		"missing, slow":   {http.StatusNotFound, time.Minute, fetchInterval, 700},
		"downloaded":      {http.StatusOK, 0, fetchInterval, 700},
		"broken":          {http.StatusBadGateway, 0, fetchInterval, 3601},
		"too many at all": {http.StatusTooManyRequests, 0, fetchInterval, 3601},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var now, tooMany, full atomic.Int32
				starts := make(chan time.Time, 4000)
				r := run(t, newFetching(Options{}, func(*http.Request) (*http.Response, error) {
					starts <- time.Now()
					switch n := now.Add(1); {
					case n > maxFetches:
						tooMany.Add(1)
					case n == maxFetches:
						full.Add(1)
					}
					time.Sleep(tt.takes)
					now.Add(-1)
					return answer(tt.status, []byte("<html>")), nil
				}))
				for range 60 {
					r.Use("", ids, nil)
					time.Sleep(time.Minute)
				}
				r.stop()
				assert.Zero(t, tooMany.Load())
				assert.Equal(t, tt.takes == time.Minute, full.Load() > 0)
				close(starts)
				shortest, last := time.Hour, time.Time{}
				for start := range starts {
					shortest, last = min(shortest, start.Sub(last)), start
				}
				assert.Equal(t, tt.interval, shortest)
				n := r.Stats().Fetches
				assert.GreaterOrEqual(t, n, int64(100), "each")
				assert.LessOrEqual(t, n, tt.most, "again every ten minutes, or every minute if the server is at fault")
			})
		})
	}
}

// TestAnswers has a server that first answers something wrong, and later the pack.
func TestAnswers(t *testing.T) {
	whole := packOf(t, first)
	for name, tt := range map[string]struct {
		answer func() (*http.Response, error)
		reason Reason
		says   string // empty: there is no problem
	}{
		"not there": {func() (*http.Response, error) { return answer(http.StatusNotFound, whole), nil }, NotFound, ""},
		"gone":      {func() (*http.Response, error) { return answer(http.StatusGone, nil), nil }, NotFound, ""},
		"refused":   {func() (*http.Response, error) { return answer(http.StatusForbidden, nil), nil }, Fetch, "debug_info::url: " + first + ": the server answers 403 Forbidden"},
		"verbose": {func() (*http.Response, error) {
			resp := answer(http.StatusForbidden, nil)
			resp.Status = "403 " + strings.Repeat("no ", 1<<20)
			return resp, nil
		}, Fetch, "the server answers 403 Forbidden"},
		"malformed":   {func() (*http.Response, error) { return nil, errors.New("malformed: " + strings.Repeat("?", 1<<20)) }, Fetch, "malformed: ??"},
		"broken":      {func() (*http.Response, error) { return answer(http.StatusBadGateway, nil), nil }, Fetch, "Bad Gateway"},
		"too many":    {func() (*http.Response, error) { return answer(http.StatusTooManyRequests, nil), nil }, Fetch, "debug_info::url: the server answers 429"},
		"unreachable": {func() (*http.Response, error) { return nil, errors.New("connection refused") }, Fetch, "debug_info::url: connection refused"},
		"cut off": {func() (*http.Response, error) {
			resp := answer(http.StatusOK, nil)
			resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(whole[:50]), errReader{}))
			return resp, nil
		}, Fetch, "debug_info::url: the line went dead"},
		"short":     {func() (*http.Response, error) { return answer(http.StatusOK, whole[:len(whole)-9]), nil }, Damaged, "debug_info::url: " + first + ": damaged pack"},
		"a page":    {func() (*http.Response, error) { return answer(http.StatusOK, []byte("<html>log in</html>")), nil }, Damaged, "not a pack"},
		"another's": {func() (*http.Response, error) { return answer(http.StatusOK, packOf(t, second)), nil }, BuildID, "it is the pack of " + second},
		"endless": {func() (*http.Response, error) {
			resp := answer(http.StatusOK, nil)
			resp.Body = io.NopCloser(endless{})
			return resp, nil
		}, TooLarge, "the answer is too large: more than 33554432 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, dir := range []string{"", ownDir(t)} {
				synctest.Test(t, func(t *testing.T) {
					mended := false
					r := run(t, newFetching(Options{Directory: dir}, func(*http.Request) (*http.Response, error) {
						if mended {
							return answer(http.StatusOK, whole), nil
						}
						return tt.answer()
					}))
					r.use(first)
					assert.False(t, r.has(first))
					assert.Equal(t, int64(1), r.refusedFor(tt.reason))
					if tt.says == "" {
						assert.Empty(t, r.health())
					} else {
						assert.Contains(t, r.health(), tt.says)
						assert.Less(t, len(r.health()), 500)
					}
					if dir != "" {
						assert.Empty(t, filesIn(t, filepath.Join(dir, fetchedDir)))
					}
					time.Sleep(readAgain)
					mended = true
					r.use(first)
					assert.Equal(t, tt.reason == Fetch && name != "refused" && name != "verbose", r.has(first), "a bad pack is fetched again only later")
					time.Sleep(fetchAgain)
					r.use(first)
					assert.True(t, r.has(first))
					assert.Empty(t, r.health())
					r.stop()
				})
			}
		})
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("the line went dead") }

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// TestFetchedFileIsFetchedAgain has a fetched file that can no longer be read, as after an
// update to another format.
func TestFetchedFileIsFetchedAgain(t *testing.T) {
	dir := ownDir(t)
	put(t, filepath.Join(dir, fetchedDir), first, []byte("old"))
	synctest.Test(t, func(t *testing.T) {
		r := run(t, newFetching(Options{Directory: dir}, func(*http.Request) (*http.Response, error) {
			return answer(http.StatusOK, packOf(t, first)), nil
		}))
		r.use(first)
		assert.True(t, r.has(first))
		assert.Empty(t, r.health())
		r.stop()
	})
	content, err := os.ReadFile(filepath.Join(dir, fetchedDir, first+pack.Ext))
	require.NoError(t, err)
	assert.Equal(t, packOf(t, first), content)
}

// TestOwnDirectoryNamedFetched has a damaged pack of the operator in a directory with the same
// name as the directory of fetched packs.
func TestOwnDirectoryNamedFetched(t *testing.T) {
	dir := filepath.Join(t.TempDir(), fetchedDir)
	put(t, dir, first, []byte("old"))
	synctest.Test(t, func(t *testing.T) {
		r := run(t, newFetching(Options{Directory: dir}, func(*http.Request) (*http.Response, error) {
			return answer(http.StatusNotFound, nil), nil
		}))
		r.use(first)
		assert.Contains(t, r.health(), filepath.Join(dir, first+pack.Ext)+": ")
		assert.Equal(t, int64(1), r.refusedFor(Damaged))
		r.stop()
	})
	assert.FileExists(t, filepath.Join(dir, first+pack.Ext))
}

// TestDisk has disk space for two fetched packs, and a pack of the operator next to them.
func TestDisk(t *testing.T) {
	dir := ownDir(t)
	own := strings.Repeat("00", 20)
	put(t, dir, own, make([]byte, 1<<20))
	fetched := filepath.Join(dir, fetchedDir)
	size := int64(len(packOf(t, first)))
	put(t, fetched, first, packOf(t, first))
	put(t, fetched, second, packOf(t, second))
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{first + pack.Ext, second + pack.Ext, first + ".1.tmp"} {
		path := filepath.Join(fetched, name)
		f, err := os.OpenFile(path, os.O_CREATE, 0o600)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.NoError(t, os.Chtimes(path, old, old))
		old = old.Add(time.Second)
	}
	for _, tt := range []struct {
		maxDisk int64
		want    []string
	}{
		{2 * size, []string{first + pack.Ext, third + pack.Ext}},
		{size - 1, []string{first + pack.Ext, third + pack.Ext}}, // not kept, and nothing is removed for it
	} {
		s := New(Options{Directory: dir, URL: packsURL, MaxBytes: plenty, MaxDisk: tt.maxDisk})
		s.SetClient(&http.Client{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
			id := strings.TrimSuffix(filepath.Base(req.URL.Path), pack.Ext)
			return answer(http.StatusOK, packOf(t, id)), nil
		})})
		r := run(t, s)
		r.Use("", []string{first}, nil) // the oldest, but used now
		require.Eventually(t, func() bool { return r.has(first) }, time.Minute, time.Millisecond)
		r.Use("", []string{third}, nil)
		require.Eventually(t, func() bool { return r.has(third) }, time.Minute, time.Millisecond)
		r.stop()
		assert.ElementsMatch(t, tt.want, filesIn(t, fetched))
	}
	assert.FileExists(t, filepath.Join(dir, own+pack.Ext))
}

// TestStopWhileFetching ends a store while a server is slow, and while there is nothing to fetch.
func TestStopWhileFetching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := true
		s := newFetching(Options{}, func(req *http.Request) (*http.Response, error) {
			if slow {
				<-req.Context().Done()
				return nil, req.Context().Err()
			}
			return answer(http.StatusOK, packOf(t, strings.TrimSuffix(filepath.Base(req.URL.Path), pack.Ext))), nil
		})
		r := run(t, s)
		r.use(first)
		began := time.Now()
		r.stop()
		assert.Zero(t, time.Since(began))
		assert.Zero(t, r.refusedFor(Fetch))
		slow = false
		r = run(t, s)
		time.Sleep(time.Minute)
		assert.True(t, r.has(first), "it is fetched when the store runs again")
		r.stop()
		r = run(t, s) // the last run ended while it waited for a request
		r.use(second)
		assert.True(t, r.has(second))
		r.stop()
	})
}

func TestExpand(t *testing.T) {
	assert.Equal(t, "https://example.org/"+first+".kspack?x="+first, Expand("https://example.org/{build_id}.{format}?x={build_id}", first))
}
