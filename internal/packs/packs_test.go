// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Build ids.
var (
	first  = strings.Repeat("1a", 20)
	second = strings.Repeat("2b", 20)
	third  = strings.Repeat("3c", 20)
	made   = strings.Repeat("ff", 20) // a build that does not exist
)

// packOf returns a pack of a build. All have the same size.
func packOf(t *testing.T, buildID string) []byte {
	t.Helper()
	w := pack.NewWriter(pack.Info{BuildID: buildID, Name: pack.KernelName, Arch: "amd64", Extent: pack.Range{End: 0x100}})
	w.Symbol(pack.Symbol{Range: pack.Range{End: 0x100}, Name: "vfs_read"})
	b, err := w.Bytes()
	require.NoError(t, err)
	return b
}

// put writes the file of a build into a directory.
func put(t *testing.T, dir, buildID string, content []byte) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, buildID+pack.Ext), content, 0o644))
}

// ownDir returns a directory that others cannot write to.
func ownDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "packs")
	require.NoError(t, os.Mkdir(dir, 0o755))
	return dir
}

// running is a running store and its last update.
type running struct {
	*Store
	t    *testing.T
	stop func()

	mu   sync.Mutex
	last symcache.Update
}

// run runs a store until the test ends.
func run(t *testing.T, s *Store) *running {
	t.Helper()
	r := &running{Store: s, t: t}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		assert.NoError(t, s.Run(ctx, func(u symcache.Update) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.last = u
		}))
	})
	r.stop = func() {
		cancel()
		done.Wait()
	}
	t.Cleanup(r.stop)
	return r
}

// health returns the last problem that the store reported, or an empty string if there is none.
func (r *running) health() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.Degraded == nil {
		return ""
	}
	return r.last.Degraded.Error()
}

// has reports whether the pack of a build is open.
func (r *running) has(buildID string) bool { return r.View().Packs.ByBuildID(buildID) != nil }

// use says that builds are in use, and waits until the store is idle.
func (r *running) use(buildIDs ...string) {
	r.Use("", buildIDs, nil)
	synctest.Wait()
}

// refusedFor returns how many packs were refused for a reason.
func (r *running) refusedFor(reason Reason) int64 { return r.Stats().Refused[reason] }

const plenty = 64 << 20

func TestPacksOfTheDirectory(t *testing.T) {
	dir := ownDir(t)
	put(t, dir, first, packOf(t, first))
	put(t, dir, second, packOf(t, second))
	synctest.Test(t, func(t *testing.T) {
		r := run(t, New(Options{Directory: dir, MaxBytes: plenty}))
		synctest.Wait()
		assert.False(t, r.has(first), "it is not in use")
		r.use(first, made, first)
		assert.True(t, r.has(first))
		assert.False(t, r.has(second))
		assert.False(t, r.has(made))
		assert.Empty(t, r.health(), "that there is no pack is not wrong")
		assert.Equal(t, int64(1), r.refusedFor(NotFound))
		stats := r.Stats()
		assert.Equal(t, 1, stats.Open)
		assert.Equal(t, int64(len(packOf(t, first))), stats.Bytes)
		assert.Zero(t, stats.Fetches)

		r.Use("", nil, []string{buildid.FileID(first), buildid.FileID(second), buildid.FileID(made)})
		synctest.Wait()
		assert.True(t, r.has(second), "by its file ID")
		assert.Equal(t, int64(2), r.refusedFor(NotFound))
		assert.Len(t, r.state.queue.requests, 2)
		r.stop()
	})
}

// TestLaterFiles adds and changes files while the store runs.
func TestLaterFiles(t *testing.T) {
	dir := ownDir(t)
	synctest.Test(t, func(t *testing.T) {
		r := run(t, New(Options{Directory: dir, MaxBytes: plenty}))
		r.use(first)
		r.Use("", nil, []string{buildid.FileID(second)})
		synctest.Wait()
		put(t, dir, first, packOf(t, first))
		put(t, dir, second, packOf(t, second))
		r.use(first)
		assert.False(t, r.has(first), "it is not looked for again so soon")
		time.Sleep(readAgain)
		r.use(first)
		r.Use("", nil, []string{buildid.FileID(second)})
		synctest.Wait()
		assert.True(t, r.has(first))
		assert.True(t, r.has(second))

		require.NoError(t, os.Remove(filepath.Join(dir, first+pack.Ext)))
		time.Sleep(time.Hour)
		r.use(first)
		assert.True(t, r.has(first), "an open pack needs no file")
		assert.Empty(t, r.health())
		assert.Zero(t, r.requested())
		r.stop()
	})
}

// TestRefused has files that are no valid packs; each is replaced by a valid one later.
func TestRefused(t *testing.T) {
	whole := packOf(t, first)
	flipped := append([]byte(nil), whole...)
	flipped[len(flipped)-1] ^= 1
	newer := append([]byte(nil), whole...)
	newer[8]++
	for name, tt := range map[string]struct {
		file   func(path string) error
		reason Reason
		says   string
	}{
		"cut off":        {write(whole[:len(whole)/2]), Damaged, "damaged pack"},
		"empty":          {write(nil), Damaged, "not a pack"},
		"something else": {write([]byte(strings.Repeat("text\n", 100))), Damaged, "not a pack"},
		"a bit flipped":  {write(flipped), Damaged, "wrong checksum"},
		"of a version":   {write(newer), Version, "another version"},
		"of a build":     {write(packOf(t, second)), BuildID, "it is the pack of " + second},
		"too large":      {write(make([]byte, plenty+1)), TooLarge, "larger than debug_info::max_bytes: 67108865 of 67108864 bytes"},
		"a directory":    {func(path string) error { return os.Mkdir(path, 0o755) }, Unreadable, "is not a regular file"},
		"a link out":     {func(path string) error { return os.Symlink("/etc/passwd", path) }, Unreadable, "escapes"},
		"others write":   {func(path string) error { _ = write(whole)(path); return os.Chmod(path, 0o664) }, Insecure, "chmod go-w"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := ownDir(t)
			file := filepath.Join(dir, first+pack.Ext)
			require.NoError(t, tt.file(file))
			synctest.Test(t, func(t *testing.T) {
				r := run(t, New(Options{Directory: dir, MaxBytes: plenty}))
				r.use(first)
				assert.False(t, r.has(first))
				assert.Contains(t, r.health(), file)
				assert.Contains(t, r.health(), tt.says)
				assert.NotContains(t, r.health(), "\n")
				assert.Equal(t, int64(1), r.refusedFor(tt.reason))

				require.NoError(t, os.Remove(file))
				require.NoError(t, write(whole)(file))
				time.Sleep(readAgain)
				r.use(first)
				assert.True(t, r.has(first))
				assert.Empty(t, r.health())
				r.stop()
			})
		})
	}
}

func write(content []byte) func(path string) error {
	return func(path string) error { return os.WriteFile(path, content, 0o644) }
}

// TestDirectoryOfOthers has directories that cannot be trusted or read.
func TestDirectoryOfOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil, mend func(dir string) error
		says        string
	}{
		"all write":   {chmod(0o777), chmod(0o755), "has the mode drwxrwxrwx: it is writable by group or others; run chmod go-w"},
		"group":       {chmod(0o775), chmod(0o755), "drwxrwxr-x"},
		"sticky":      {chmod(0o777 | os.ModeSticky), chmod(0o700), "chmod go-w"},
		"not there":   {func(dir string) error { return os.Rename(dir, dir+"2") }, func(dir string) error { return os.Rename(dir+"2", dir) }, "no such file or directory"},
		"below, too":  {func(dir string) error { return chmod(0o777)(filepath.Join(dir, fetchedDir)) }, func(dir string) error { return chmod(0o755)(filepath.Join(dir, fetchedDir)) }, "fetched has the mode drwxrwxrwx"},
		"not its own": {os.RemoveAll, func(dir string) error { return os.Mkdir(dir, 0o755) }, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := ownDir(t)
			put(t, dir, first, packOf(t, first))
			require.NoError(t, os.Mkdir(filepath.Join(dir, fetchedDir), 0o755))
			require.NoError(t, tt.spoil(dir))
			synctest.Test(t, func(t *testing.T) {
				r := run(t, New(Options{Directory: dir, MaxBytes: plenty}))
				synctest.Wait()
				assert.Contains(t, r.health(), tt.says, "before anything is looked for")
				r.use(first, second)
				assert.Contains(t, r.health(), tt.says)
				assert.Contains(t, r.health(), dir)
				assert.NotContains(t, r.health(), "other packs", "said once")
				assert.False(t, r.has(first))

				require.NoError(t, tt.mend(dir))
				time.Sleep(readAgain)
				r.use(first, second)
				assert.Empty(t, r.health())
				r.stop()
			})
		})
	}
}

func chmod(mode os.FileMode) func(string) error {
	return func(path string) error { return os.Chmod(path, mode) }
}

// TestMemory has room for two packs.
func TestMemory(t *testing.T) {
	dir := ownDir(t)
	for _, id := range []string{first, second, third} {
		put(t, dir, id, packOf(t, id))
	}
	size := int64(len(packOf(t, first)))
	synctest.Test(t, func(t *testing.T) {
		r := run(t, New(Options{Directory: dir, MaxBytes: 2*size + size/2}))
		r.use(first)
		time.Sleep(time.Second)
		r.use(second)
		time.Sleep(time.Second)
		r.use(third)
		assert.True(t, r.has(first) && r.has(second), "both are in use")
		assert.False(t, r.has(third))
		assert.Contains(t, r.health(), "debug_info::max_bytes")
		assert.Equal(t, int64(1), r.refusedFor(NoRoom))

		time.Sleep(idleAfter)
		r.use(second, third)
		assert.False(t, r.has(first), "idle")
		assert.True(t, r.has(second) && r.has(third))
		assert.Empty(t, r.health())
		assert.Equal(t, 2*size, r.Stats().Bytes)

		time.Sleep(idleAfter / 2)
		r.use(second)
		time.Sleep(idleAfter)
		r.use(first)
		assert.True(t, r.has(first) && r.has(second))
		assert.False(t, r.has(third), "idle for longest")
		r.stop()
	})
}

// TestContract_10_3_OnlyBuildIDs has ids that lead elsewhere, and a directory with the files
// that they would lead to.
func TestContract_10_3_OnlyBuildIDs(t *testing.T) {
	dir := ownDir(t)
	put(t, filepath.Dir(dir), first, packOf(t, first))
	put(t, dir, strings.ToUpper(first), packOf(t, first))
	put(t, dir, first[:15], packOf(t, first))
	var asked []string
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Directory: dir, URL: "https://packs.example/{build_id}", MaxBytes: plenty})
		s.SetClient(&http.Client{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
			asked = append(asked, req.URL.Path)
			return answer(http.StatusNotFound, nil), nil
		})})
		r := run(t, s)
		hostile := []string{
			"", "../" + first, strings.ToUpper(first), first[:15], first + "\n", first + "/..", strings.Repeat("a", 65), "{build_id}", "..", first + "\x00",
		}
		r.Use("", hostile, hostile)
		r.use(second)
		time.Sleep(time.Hour)
		r.Use("", hostile, hostile)
		synctest.Wait()
		r.stop()
		assert.Equal(t, []string{"/" + second}, asked)
		assert.Zero(t, r.Stats().Open)
		assert.Empty(t, r.health())
	})
}

// storeOfFirst returns a store that fetches packs from a server with that of first only.
func storeOfFirst(t *testing.T) *Store {
	t.Helper()
	s := New(Options{URL: "https://packs.example/{build_id}", MaxBytes: plenty})
	s.SetClient(&http.Client{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
		if req.URL.Path == "/"+first {
			return answer(http.StatusOK, packOf(t, first)), nil
		}
		return answer(http.StatusNotFound, nil), nil
	})})
	return s
}

// TestMadeUpBuilds has a sender that makes up build ids, in one message and in many. Packs of
// builds in use are found all the same.
func TestMadeUpBuilds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, storeOfFirst(t))
		began := time.Now()
		for i := range 20 * maxRequests {
			r.Use("", []string{buildid.FileID(time.Duration(i).String())}, nil)
			if i%maxRequests == 0 {
				r.Use("", []string{first}, nil)
				time.Sleep(time.Second)
			}
		}
		assert.True(t, r.has(first))
		assert.LessOrEqual(t, len(r.state.queue.requests), maxRequests)
		assert.LessOrEqual(t, r.Stats().Fetches, int64(time.Since(began)/missInterval)+1)
		r.stop()
	})
}

// TestHostsTakeTurns has a host use 1,000 builds that it made up, in 30 messages. An existing pack is open within 10 s if
// another host uses it, or has confirmed that it exists.
func TestHostsTakeTurns(t *testing.T) {
	const hostile, other = "10.0.0.1", "10.0.0.2"
	for name, tt := range map[string]struct {
		users  []string
		inTime bool
	}{
		"another host":          {[]string{other}, true},
		"confirmed by another":  {[]string{hostile, other}, true},
		"the collector itself":  {[]string{""}, true},
		"only the hostile host": {[]string{hostile}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := run(t, storeOfFirst(t))
				var made []string
				for i := range 1000 {
					made = append(made, buildid.FileID(strconv.Itoa(i)))
				}
				for range 30 {
					r.Use(hostile, made, nil)
					time.Sleep(100 * time.Millisecond)
				}
				for _, host := range tt.users {
					r.Use(host, []string{first}, nil)
				}
				time.Sleep(10 * time.Second)
				assert.Equal(t, tt.inTime, r.has(first))
				r.stop()
			})
		})
	}
}

// TestManyHostsMakeUpBuilds has 120 hosts make up 20 builds each. A host that asks after them gets its pack when each of
// the others has had one turn: what the server does not have takes no time of a download.
func TestManyHostsMakeUpBuilds(t *testing.T) {
	const hosts = 120
	synctest.Test(t, func(t *testing.T) {
		r := run(t, storeOfFirst(t))
		for i := range hosts {
			var made []string
			for k := range 20 {
				made = append(made, buildid.FileID(fmt.Sprint(i, k)))
			}
			r.Use("10.0.1."+strconv.Itoa(i), made, nil)
		}
		r.Use("10.0.0.1", []string{first}, nil)
		time.Sleep((hosts + 2) * missInterval)
		assert.True(t, r.has(first))
		r.stop()
	})
}

// TestNewHostsDoNotComeFirst has a new host for each build that is made up. A host that was served before gets its pack
// all the same.
func TestNewHostsDoNotComeFirst(t *testing.T) {
	const honest = "10.0.0.1"
	synctest.Test(t, func(t *testing.T) {
		r := run(t, storeOfFirst(t))
		r.Use(honest, []string{second}, nil)
		time.Sleep(3 * time.Second)
		hosts := 0
		use := func(n int) {
			for range n {
				r.Use("10.0.1."+strconv.Itoa(hosts), []string{buildid.FileID(strconv.Itoa(hosts))}, nil)
				hosts++
			}
		}
		use(50)
		r.Use(honest, []string{first}, nil)
		for range 20 { // the requests of the first second are equal, and can all be served before
			use(30)
			time.Sleep(time.Second)
		}
		assert.True(t, r.has(first))
		r.stop()
	})
}

// TestRunAgain ends a store and runs it again, as when the configuration is reloaded.
func TestRunAgain(t *testing.T) {
	dir := ownDir(t)
	put(t, dir, first, packOf(t, first))
	put(t, dir, second, packOf(t, second))
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Directory: dir, MaxBytes: plenty})
		r := run(t, s)
		r.use(first)
		r.stop()
		r.use(first, second)
		assert.True(t, r.has(first), "it is kept")
		assert.False(t, r.has(second))
		r = run(t, s)
		synctest.Wait()
		assert.True(t, r.has(second), "as it was requested before")
		assert.Equal(t, int64(1), r.last.Changes.Counts.Updates[symcache.KindLoad])
		r.stop()
	})
}

// TestManyUsers is for the race detector.
func TestManyUsers(t *testing.T) {
	dir := ownDir(t)
	ids := []string{first, second, third}
	for _, id := range ids {
		put(t, dir, id, packOf(t, id))
	}
	synctest.Test(t, func(t *testing.T) {
		r := run(t, New(Options{Directory: dir, MaxBytes: int64(2 * len(packOf(t, first)))}))
		var users sync.WaitGroup
		for i := range 8 {
			users.Go(func() {
				for k := range 200 {
					id := ids[(i/4+k/50)%len(ids)]
					r.Use("", []string{id}, []string{buildid.FileID(id)})
					if p := r.View().Packs.ByBuildID(id); p != nil {
						assert.Equal(t, id, p.Info().BuildID)
					}
					r.Stats()
					time.Sleep(10 * time.Second)
				}
			})
		}
		users.Wait()
		assert.LessOrEqual(t, r.Stats().Bytes, int64(2*len(packOf(t, first))))
		assert.Positive(t, r.Stats().Open)
		r.stop()
	})
}

// TestPack verifies that Pack waits until a pack is open or the search for it has ended, and says why it has.
func TestPack(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	dir := ownDir(t)
	put(t, dir, first, packOf(t, first))
	put(t, dir, second, []byte("not a pack"))
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Directory: dir, MaxBytes: 1 << 20})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := s.Pack(ctx, first)
		require.ErrorIs(t, err, context.DeadlineExceeded, "it does not run yet")
		cancel()
		r := run(t, s)
		defer r.stop()
		for range 2 {
			p, err := s.Pack(t.Context(), first)
			require.NoError(t, err)
			assert.Equal(t, first, p.Info().BuildID)
			_, err = s.Pack(t.Context(), second)
			require.ErrorIs(t, err, pack.ErrFormat)
			_, err = s.Pack(t.Context(), third)
			require.ErrorContains(t, err, "no pack")
			_, err = s.Pack(t.Context(), "../"+first)
			require.ErrorContains(t, err, "no pack", "not a build id")
		}
		put(t, dir, third, packOf(t, third))
		_, err = s.Pack(t.Context(), third)
		require.ErrorContains(t, err, "no pack", "the directory was read a moment ago")
		time.Sleep(readAgain)
		p, err := s.Pack(t.Context(), third)
		require.NoError(t, err, "a pack that arrived later")
		assert.Equal(t, third, p.Info().BuildID)
	})
}
