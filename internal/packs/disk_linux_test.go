// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// TestDiskIsFull fetches packs to a full disk. The server is not blamed, and asked only once.
func TestDiskIsFull(t *testing.T) {
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=755,size=64k")
	if errors.Is(err, os.ErrPermission) {
		t.Skipf("not root (%v): a full disk is not tested", err)
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Unmount(dir, 0)) }()
	filler := filepath.Join(dir, "filler")
	require.ErrorIs(t, os.WriteFile(filler, make([]byte, 1<<20), 0o600), syscall.ENOSPC)

	synctest.Test(t, func(t *testing.T) {
		r := run(t, newFetching(Options{Directory: dir}, func(req *http.Request) (*http.Response, error) {
			id := filepath.Base(req.URL.Path)
			return answer(http.StatusOK, packOf(t, id[:len(id)-len(pack.Ext)])), nil
		}))
		r.use(first)
		assert.True(t, r.has(first), "in memory")
		assert.Regexp(t, "^debug_info::directory: keeping a pack: write .*: no space left on device$", r.health())
		assert.Equal(t, int64(1), r.Stats().Fetches)
		assert.Zero(t, r.refusedFor(Fetch))
		assert.Empty(t, filesIn(t, filepath.Join(dir, fetchedDir)))
		time.Sleep(long)
		assert.Contains(t, r.health(), "no space left", "it is still full")

		require.NoError(t, os.Remove(filler))
		time.Sleep(long)
		assert.Empty(t, r.health())
		r.dir.keeping.Lock()
		assert.Equal(t, int64(plenty), r.dir.free, "the check takes and leaves nothing")
		r.dir.keeping.Unlock()
		r.use(second)
		assert.True(t, r.has(second))
		r.stop()
	})
	assert.Equal(t, []string{second + pack.Ext}, filesIn(t, filepath.Join(dir, fetchedDir)))
}

// TestDiskIsFullHalfway has room for the beginning of a pack.
func TestDiskIsFullHalfway(t *testing.T) {
	whole := packOf(t, first)
	f, err := os.Create(filepath.Join(t.TempDir(), "draft"))
	require.NoError(t, err)
	d := &draft{file: f, dir: &directory{free: plenty}}
	defer d.discard()
	_, err = d.Write(whole[:10])
	require.NoError(t, err)
	d.full = syscall.ENOSPC
	_, err = d.Write(whole[10:])
	require.NoError(t, err)

	got, err := pack.Read(d.content(), d.size)
	require.NoError(t, err)
	assert.Equal(t, first, got.Info().BuildID)
	assert.ErrorIs(t, New(Options{MaxDisk: plenty}).keep(d, first), syscall.ENOSPC)
}

// TestDraftsOfKilledProcesses starts a store where processes were killed while they fetched, and another still fetches.
// Nothing is removed while others could choose what.
func TestDraftsOfKilledProcesses(t *testing.T) {
	dir := ownDir(t)
	fetched := filepath.Join(dir, fetchedDir)
	put(t, fetched, first, packOf(t, first))
	all := []string{first + pack.Ext, first + ".1.tmp", second + ".2.tmp", third + ".3.tmp"}
	for _, name := range all[1:] {
		require.NoError(t, os.WriteFile(filepath.Join(fetched, name), make([]byte, 1<<20), 0o600))
	}
	other, err := os.Open(filepath.Join(fetched, third+".3.tmp"))
	require.NoError(t, err)
	defer func() { _ = other.Close() }()
	require.NoError(t, syscall.Flock(int(other.Fd()), syscall.LOCK_EX))

	for _, tt := range []struct {
		mode os.FileMode
		want []string
	}{
		{0o777, all},
		{0o755, []string{first + pack.Ext, third + ".3.tmp"}},
	} {
		require.NoError(t, os.Chmod(dir, tt.mode))
		synctest.Test(t, func(t *testing.T) {
			r := run(t, newFetching(Options{Directory: dir}, func(*http.Request) (*http.Response, error) {
				return answer(http.StatusNotFound, nil), nil
			}))
			synctest.Wait()
			r.stop()
		})
		assert.ElementsMatch(t, tt.want, filesIn(t, fetched))
	}
}
