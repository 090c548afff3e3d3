// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"net/http"
	"path/filepath"
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
