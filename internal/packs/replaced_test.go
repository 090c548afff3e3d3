// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// nameIn returns the only name in a pack.
func nameIn(p *pack.Pack) (name string) {
	for s := range p.Symbols() {
		name = s.Name
	}
	return name
}

// TestReplacedFiles replaces the file of an open pack, in every possible way.
func TestReplacedFiles(t *testing.T) {
	dir := ownDir(t)
	name := filepath.Join(dir, first+pack.Ext)
	whole := packOf(t, first)
	other := pack.NewWriter(pack.Info{BuildID: first, Name: pack.KernelName, Arch: "amd64", Extent: pack.Range{End: 0x100}})
	other.Symbol(pack.Symbol{Range: pack.Range{End: 0x100}, Name: "vfs_seek"}) // the same length as the other name
	changed, err := other.Bytes()
	require.NoError(t, err)
	require.Len(t, changed, len(whole))
	put(t, dir, first, whole)
	for _, gateway := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := run(t, New(Options{Directory: dir, MaxBytes: plenty, Gateway: gateway}))
			opened := func() *pack.Pack {
				time.Sleep(readAgain)
				r.use(first)
				return r.View().Packs.ByBuildID(first)
			}
			before := opened()
			require.NotNil(t, before)
			bytes := r.Stats().Bytes
			assert.Same(t, before, opened(), "it is not read again")

			put(t, dir, first, changed) // in the same file
			require.NoError(t, os.Chtimes(name, time.Time{}, time.Unix(1, 0)))
			now := opened()
			assert.NotSame(t, before, now)
			assert.Equal(t, "vfs_seek", nameIn(now))
			assert.Equal(t, bytes, r.Stats().Bytes, "the other one is gone")
			assert.Same(t, now, opened())

			require.NoError(t, os.WriteFile(name+".new", whole, 0o644))
			require.NoError(t, os.Chtimes(name+".new", time.Time{}, time.Unix(1, 0)))
			require.NoError(t, os.Rename(name+".new", name))
			assert.Equal(t, "vfs_read", nameIn(opened()), "another file of the same time and size")

			put(t, dir, first, []byte("other"))
			assert.Equal(t, "vfs_read", nameIn(opened()), "a worse one replaces nothing")
			assert.Contains(t, r.health(), name+": not a pack")
			put(t, dir, first, whole)
			opened()
			assert.Empty(t, r.health())
			assert.Zero(t, r.requested())
			r.stop()
		})
	}
}

// TestReplacedWithoutRoom replaces the file of a pack, in a store with room for it alone.
func TestReplacedWithoutRoom(t *testing.T) {
	dir := ownDir(t)
	put(t, dir, first, packOf(t, first))
	synctest.Test(t, func(t *testing.T) {
		r := run(t, New(Options{Directory: dir, MaxBytes: int64(len(packOf(t, first)))}))
		r.use(first)
		before := r.View().Packs.ByBuildID(first)
		require.NoError(t, os.Chtimes(filepath.Join(dir, first+pack.Ext), time.Time{}, time.Unix(1, 0)))
		time.Sleep(readAgain)
		r.use(first)
		assert.NotSame(t, before, r.View().Packs.ByBuildID(first))
		assert.Equal(t, int64(len(packOf(t, first))), r.Stats().Bytes)
		assert.Empty(t, r.health())
		r.stop()
	})
}

// TestFetchedIsNotReadAgain has a fetched pack in use: each use changes the time of its file.
func TestFetchedIsNotReadAgain(t *testing.T) {
	dir := ownDir(t)
	synctest.Test(t, func(t *testing.T) {
		r := run(t, newFetching(Options{Directory: dir}, func(*http.Request) (*http.Response, error) {
			return answer(http.StatusOK, packOf(t, first)), nil
		}))
		r.use(first)
		before := r.View().Packs.ByBuildID(first)
		now := time.Now()
		require.NoError(t, os.Chtimes(filepath.Join(dir, fetchedDir, first+pack.Ext), now, now))
		time.Sleep(readAgain)
		r.use(first)
		assert.Same(t, before, r.View().Packs.ByBuildID(first))
		assert.Equal(t, int64(1), r.Stats().Fetches)

		put(t, dir, first, packOf(t, first))
		time.Sleep(readAgain)
		r.use(first)
		assert.NotSame(t, before, r.View().Packs.ByBuildID(first), "the operator's own comes first")
		r.stop()
	})
}
