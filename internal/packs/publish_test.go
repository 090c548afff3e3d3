// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// long is the time after which everything unused is forgotten, unless the URL answered later.
const long = 2*forgetAfter + time.Second

// requested returns the number of requests.
func (r *running) requested() int {
	r.Store.mu.Lock()
	defer r.Store.mu.Unlock()
	return len(r.state.queue.requests)
}

// TestProblemsAreForgotten has packs and origins with problems that persist. The store reports
// them as long as these packs are asked for.
func TestProblemsAreForgotten(t *testing.T) {
	for name, tt := range map[string]struct {
		status int // status of the answers
		says   string
	}{
		"url":     {http.StatusBadGateway, "the server answers"},
		"refused": {http.StatusForbidden, "the server answers"},
		"damaged": {http.StatusOK, "not a pack"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := run(t, newFetching(Options{}, func(*http.Request) (*http.Response, error) {
					return answer(tt.status, []byte("<html>")), nil
				}))
				for range 60 {
					r.use(first)
					r.Use("", nil, []string{buildid.FileID(made)})
					time.Sleep(time.Minute)
					assert.Contains(t, r.health(), tt.says)
				}
				for range 10 { // others are in use
					r.Use("", nil, []string{buildid.FileID(made)})
					time.Sleep(long / 10)
				}
				synctest.Wait()
				assert.Empty(t, r.health())
				assert.Equal(t, 1, r.requested())
				time.Sleep(long)
				synctest.Wait()
				assert.Zero(t, r.requested())
				r.mu.Lock()
				assert.False(t, r.state.isUnsettled(), "nothing wakes it")
				r.mu.Unlock()
				r.stop()
			})
		})
	}
}

// TestDirectoryIsMended mends the directory while no pack is asked for.
func TestDirectoryIsMended(t *testing.T) {
	dir := ownDir(t)
	require.NoError(t, os.Chmod(dir, 0o777))
	synctest.Test(t, func(t *testing.T) {
		r := run(t, New(Options{Directory: dir, MaxBytes: plenty}))
		r.use(first)
		time.Sleep(time.Hour)
		assert.Contains(t, r.health(), "run chmod go-w")
		require.NoError(t, os.Chmod(dir, 0o755))
		time.Sleep(long)
		assert.Empty(t, r.health())
		r.stop()
	})
}

// TestDirectoryCannotBeMade has a directory in a file system where none can be created.
func TestDirectoryCannotBeMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, newFetching(Options{Directory: "/proc/packs"}, func(*http.Request) (*http.Response, error) {
			return answer(http.StatusOK, packOf(t, first)), nil
		}))
		r.use(first)
		assert.True(t, r.has(first), "in memory")
		assert.Contains(t, r.health(), "debug_info::directory: keeping a pack: mkdir /proc")
		time.Sleep(time.Hour)
		assert.Contains(t, r.health(), "keeping a pack", "it is still so")
		r.stop()
	})
}

// TestNotKept removes the directory of fetched packs while a pack is fetched.
func TestNotKept(t *testing.T) {
	dir := ownDir(t)
	synctest.Test(t, func(t *testing.T) {
		r := run(t, newFetching(Options{Directory: dir}, func(*http.Request) (*http.Response, error) {
			if err := os.RemoveAll(filepath.Join(dir, fetchedDir)); err != nil {
				return nil, err
			}
			return answer(http.StatusOK, packOf(t, first)), nil
		}))
		r.use(first)
		assert.True(t, r.has(first))
		assert.Zero(t, r.requested(), "it is granted")
		assert.Contains(t, r.health(), "debug_info::directory: keeping a pack")
		time.Sleep(long)
		assert.Empty(t, r.health(), "the next can be kept")
		assert.Empty(t, filesIn(t, filepath.Join(dir, fetchedDir)))
		r.stop()
	})
}

// TestContract_10_3_MissesAreRemembered verifies that the server is asked for a missing pack every ten minutes at most, although
// unused builds are forgotten in between.
func TestContract_10_3_MissesAreRemembered(t *testing.T) {
	asked := map[string]int{}
	synctest.Test(t, func(t *testing.T) {
		r := run(t, newFetching(Options{}, func(q *http.Request) (*http.Response, error) {
			asked[strings.TrimSuffix(path.Base(q.URL.Path), pack.Ext)]++
			return answer(http.StatusNotFound, nil), nil
		}))
		r.use(second) // forgets every five minutes from now on
		time.Sleep(time.Minute)
		r.use(first)
		time.Sleep(3 * time.Minute)
		r.use(first)
		time.Sleep(6*time.Minute + 30*time.Second)
		r.use(first)
		assert.Equal(t, map[string]int{first: 1, second: 1}, asked)
		time.Sleep(time.Minute)
		r.use(first)
		assert.Equal(t, map[string]int{first: 2, second: 1}, asked)
		r.stop()
	})
}
