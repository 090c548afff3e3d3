// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// TestDiskByUse has packs that stay in memory: their files are not read again, but count as
// used.
func TestDiskByUse(t *testing.T) {
	dir := ownDir(t)
	fetched := filepath.Join(dir, fetchedDir)
	put(t, fetched, first, packOf(t, first))
	put(t, fetched, second, packOf(t, second))
	synctest.Test(t, func(t *testing.T) {
		r := run(t, newFetching(Options{Directory: dir, MaxDisk: 2 * int64(len(packOf(t, first)))},
			func(*http.Request) (*http.Response, error) { return answer(http.StatusOK, packOf(t, third)), nil }))
		for _, id := range []string{first, second, first, third} {
			r.use(id)
			assert.True(t, r.has(id))
			time.Sleep(time.Minute)
		}
		r.stop()
	})
	assert.ElementsMatch(t, []string{first + pack.Ext, third + pack.Ext}, filesIn(t, fetched))
}

// TestWithoutDirectory runs a store with only a URL where the working directory looks like a directory of packs.
func TestWithoutDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir(fetchedDir, 0o755))
	draft := filepath.Join(fetchedDir, first+".1"+draftExt)
	require.NoError(t, os.WriteFile(draft, nil, 0o644))
	synctest.Test(t, func(t *testing.T) {
		r := run(t, newFetching(Options{}, func(*http.Request) (*http.Response, error) {
			return answer(http.StatusOK, packOf(t, first)), nil
		}))
		r.use(first)
		assert.True(t, r.has(first))
		assert.Empty(t, r.health())
		r.stop()
	})
	assert.Equal(t, []string{first + ".1" + draftExt}, filesIn(t, fetchedDir))
}

// TestRoom verifies how much room there is on the disk while packs are fetched, kept and removed.
func TestRoom(t *testing.T) {
	const maxDisk = 1000
	dir := ownDir(t)
	s := New(Options{Directory: dir, URL: packsURL, MaxDisk: maxDisk})
	s.dir.removeAbandoned()
	assert.Equal(t, int64(maxDisk), s.dir.free, "there is no directory of fetched packs")

	newDraft := func(buildID string, size int) *draft {
		d, err := s.dir.create(buildID)
		require.NoError(t, err)
		_, err = d.Write(make([]byte, size))
		require.NoError(t, err)
		return d
	}
	d := newDraft(first, 600)
	assert.Equal(t, int64(400), s.dir.free)
	d.discard()
	assert.Equal(t, int64(maxDisk), s.dir.free)

	d = newDraft(first, 600)
	require.NoError(t, s.keep(d, first))
	d.discard()
	assert.Equal(t, int64(400), s.dir.free)

	all := newDraft(second, maxDisk) // 400 bytes of it are in the file
	assert.Zero(t, s.dir.free)
	d = newDraft(third, 700)
	require.ErrorIs(t, s.keep(d, third), errDrafts, "even without the first")
	assert.FileExists(t, s.dir.keptAt(first))
	all.discard()
	require.NoError(t, s.keep(d, third))
	d.discard()
	assert.Equal(t, []string{third + pack.Ext}, filesIn(t, s.dir.fetched()))
	assert.Equal(t, int64(300), s.dir.free)

	// Another process, with a higher limit, keeps more.
	put(t, s.dir.fetched(), second, make([]byte, 2*maxDisk))
	later := time.Now().Add(time.Second) // times of files are coarse
	require.NoError(t, os.Chtimes(s.dir.keptAt(second), later, later))
	s.dir.removeAbandoned()
	assert.Equal(t, int64(maxDisk-700-2*maxDisk), s.dir.free)
	d = newDraft(first, 10)
	require.NoError(t, s.keep(d, first))
	d.discard()
	assert.Equal(t, []string{first + pack.Ext}, filesIn(t, s.dir.fetched()))
	assert.Equal(t, int64(maxDisk-10), s.dir.free)
}

// slowly reads a few bytes at a time.
type slowly struct {
	io.Reader
	each func() // is called before each read
}

func (s slowly) Read(b []byte) (int, error) {
	s.each()
	time.Sleep(time.Second)
	return s.Reader.Read(b[:min(len(b), 50)])
}

// TestDraftsTakeDiskSpace fetches as many packs at a time as possible, with too little disk space for all.
// Every pack is used, and every pack that is kept is complete.
func TestDraftsTakeDiskSpace(t *testing.T) {
	dir := ownDir(t)
	fetched := filepath.Join(dir, fetchedDir)
	put(t, fetched, first, packOf(t, first))
	size := int64(len(packOf(t, first)))
	maxDisk := 2*size + size/2
	sizes := func() map[string]int64 {
		sizes := make(map[string]int64)
		for _, name := range filesIn(t, fetched) {
			if info, err := os.Stat(filepath.Join(fetched, name)); err == nil { // it has not got another name
				sizes[name] = info.Size()
			}
		}
		return sizes
	}
	inUse := func() (bytes int64) {
		now := sizes()
		for before := map[string]int64(nil); !maps.Equal(before, now); { // until no other fetch has written in between
			before, now = now, sizes()
		}
		for _, size := range now {
			bytes += size
		}
		return bytes
	}
	var ids []string
	for i := range 2 * maxFetches {
		ids = append(ids, buildid.FileID(time.Duration(i).String()))
	}
	synctest.Test(t, func(t *testing.T) {
		r := run(t, newFetching(Options{Directory: dir, MaxDisk: maxDisk}, func(req *http.Request) (*http.Response, error) {
			id := strings.TrimSuffix(filepath.Base(req.URL.Path), pack.Ext)
			resp := answer(http.StatusOK, nil)
			resp.Body = io.NopCloser(slowly{bytes.NewReader(packOf(t, id)), func() { assert.LessOrEqual(t, inUse(), maxDisk) }})
			return resp, nil
		}))
		r.use(ids...)
		time.Sleep(time.Minute)
		for _, id := range ids {
			assert.True(t, r.has(id))
		}
		assert.Empty(t, r.health())
		r.use(ids...)
		assert.Equal(t, int64(len(ids)), r.Stats().Fetches)
		r.stop()
	})
	kept := filesIn(t, fetched)
	assert.Len(t, kept, 2)
	for _, name := range kept {
		_, err := Read(dir, strings.TrimSuffix(name, pack.Ext))
		assert.NoError(t, err)
	}
}

// TestDiskOfMany keeps several packs concurrently, again and again.
func TestDiskOfMany(t *testing.T) {
	dir := ownDir(t)
	const size = 1000
	s := New(Options{Directory: dir, URL: packsURL, MaxDisk: 2 * size})
	for round := range 100 {
		var all sync.WaitGroup
		for i := range maxFetches {
			id := buildid.FileID(time.Duration(round*maxFetches + i).String())
			d, err := s.dir.create(id)
			require.NoError(t, err)
			defer d.discard()
			_, err = d.Write(make([]byte, size))
			require.NoError(t, err)
			all.Go(func() { assert.NoError(t, s.keep(d, id)) })
		}
		all.Wait()
		require.Len(t, filesIn(t, filepath.Join(dir, fetchedDir)), 2)
	}
}
