// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// emptyCgroups returns cgroups that has found no directory.
func emptyCgroups(t *testing.T) *cgroups {
	t.Helper()
	return &cgroups{mount: t.TempDir(), procfs: t.TempDir(), owners: make(map[uint64]claim), claims: make(map[string]*claims)}
}

func dockerPath(n int) string { return fmt.Sprintf("/docker/%064x", n) }

// TestManyContainers starts and ends as many containers as a busy build machine does in some minutes. The
// number of owners that are kept is bounded, and includes the newest containers.
func TestManyContainers(t *testing.T) {
	c := emptyCgroups(t)
	last := kerneltest.Sized(100_000, 40_000)
	for n := 2; n <= last; n++ {
		c.note(&perfring.Cgroup{ID: uint64(n), Path: dockerPath(n)})
		if len(c.owners)+len(c.old) > 2*maxNew+2 {
			t.Fatalf("%d and %d owners", len(c.owners), len(c.old))
		}
		for _, before := range []int{0, 1000, maxNew - 1} {
			if id := n - before; id > 1 && c.owner(uint64(id), later) != ownerOf(dockerPath(id)) {
				t.Fatalf("%+v of %d, after %d", c.owner(uint64(id), later), id, n)
			}
		}
	}
	assert.Equal(t, owner{}, c.owner(2, later), "forgotten, which is not the host")
}

// TestCgroupsThatAreLost: owners are forgotten even if ids without records cause the directories to be read
// again and again.
func TestCgroupsThatAreLost(t *testing.T) {
	c := emptyCgroups(t)
	id := uint64(1 << 32)
	for n := 2; n < 4*maxNew; n++ {
		c.note(&perfring.Cgroup{ID: uint64(n), Path: dockerPath(n)})
		if n%1000 == 0 {
			c.nextScan = time.Time{}
			id++
			require.Equal(t, owner{}, c.owner(id, later))
		}
	}
	assert.LessOrEqual(t, len(c.owners), maxNew+1)
	assert.NotEmpty(t, c.old)
}

// TestCgroupThatIsGone: an id without a record and a directory has no owner. The search for it happens once.
func TestCgroupThatIsGone(t *testing.T) {
	c := emptyCgroups(t)
	assert.Equal(t, owner{}, c.owner(99, later))
	assert.Contains(t, c.owners, uint64(99), "the directories were read")
	assert.Equal(t, owner{}, c.owner(100, later))
	assert.NotContains(t, c.owners, uint64(100), "they are not read again at once")
	c.nextScan = time.Time{}
	assert.Equal(t, owner{}, c.owner(99, later))
	assert.True(t, c.nextScan.IsZero(), "they are not read again for the same id")
}

// TestMountOfCgroups verifies where cgroup v2 is found by /proc/self/mountinfo.
func TestMountOfCgroups(t *testing.T) {
	const (
		tmpfs   = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
		v1      = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
		whole   = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		unified = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
		hidden  = "50 31 0:40 / /sys/fs/cgroup/unified rw,relatime - tmpfs tmpfs rw\n"
		other   = "51 23 0:38 / /mnt/unified rw,relatime - cgroup2 cgroup2 rw\n"
	)
	for _, tt := range []struct {
		name, configured, list string
		mount                  string // empty if it is not found
		isHybrid               bool
	}{
		{"v2 only", "/sys/fs/cgroup", whole, "/sys/fs/cgroup", false},
		{"hybrid", "/sys/fs/cgroup/", tmpfs + v1 + unified, "/sys/fs/cgroup/unified", true},
		{"the hybrid directory", "/sys/fs/cgroup/unified", tmpfs + v1 + unified, "/sys/fs/cgroup/unified", true},
		{"v2 in a directory of this name", "/mnt/unified", whole + other, "/mnt/unified", false},
		{"v1 only", "/sys/fs/cgroup", tmpfs + v1, "", false},
		{"elsewhere", "/sys/fs/cgroup", tmpfs + v1 + other, "", false},
		{"under another mount", "/sys/fs/cgroup", tmpfs + unified + hidden, "", false},
		{"damaged", "/sys/fs/cgroup", "30 23\n30 23 0:26 / /sys/fs/cgroup -\n - cgroup2\n", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := emptyCgroups(t)
			c.mount = filepath.Clean(tt.configured)
			require.ErrorIs(t, c.findMount(), os.ErrNotExist)
			require.NoError(t, os.Mkdir(filepath.Join(c.procfs, "self"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(c.procfs, "self/mountinfo"), []byte(tt.list), 0o600))
			err := c.findMount()
			if tt.mount == "" {
				require.ErrorContains(t, err, "/sys/fs/cgroup is not a mount of cgroup v2, nor is unified in it")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.mount, c.mount)
			assert.Equal(t, tt.isHybrid, c.isHybrid)
		})
	}
}

// TestHierarchyOfPerf verifies the interpretation of /proc/self/cgroup.
func TestHierarchyOfPerf(t *testing.T) {
	c := emptyCgroups(t)
	require.ErrorIs(t, c.check(), os.ErrNotExist)
	require.NoError(t, os.Mkdir(filepath.Join(c.procfs, "self"), 0o700))
	for list, ok := range map[string]bool{
		"0::/\n": true,
		"4:memory:/docker/perf_event\n1:name=systemd:/perf_event\n0::/init.scope\n": true,
		"3:perf_event:/\n0::/\n":                  false,
		"3:cpu,perf_event:/a:b\n0::/init.scope\n": false,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(c.procfs, "self/cgroup"), []byte(list), 0o600))
		if err := c.check(); ok {
			require.NoError(t, err, list)
		} else {
			require.ErrorContains(t, err, "mounted as cgroup v1", list)
		}
	}
}

// TestHierarchyChanges: if perf_event is mounted as v1, the ids in the last records may belong to other
// cgroups. Their samples get no container, and are counted.
func TestHierarchyChanges(t *testing.T) {
	c := emptyCgroups(t)
	c.add(7, claimOf(dockerPath(7)))
	sampler := &Sampler{Options: Options{Threads: byCycles, MaxSamples: 100, Procfs: c.procfs, Containers: true}}
	s := sessionOf(t, sampler, c, time.Now())
	require.NoError(t, os.Mkdir(filepath.Join(c.procfs, "self"), 0o700))
	list := filepath.Join(c.procfs, "self/cgroup")
	batch := perfring.Batch{Records: []perfring.Record{{Type: perfring.TypeSample, Stack: []uint64{leaf}, InCgroup: 7}}}

	require.NoError(t, os.WriteFile(list, []byte("0::/\n"), 0o600))
	addAll(t, s, batch)
	assert.Zero(t, s.out.counts.NoContainer)
	require.NoError(t, os.WriteFile(list, []byte("3:perf_event:/\n0::/\n"), 0o600))
	require.ErrorIs(t, s.add(t.Context(), batch), ErrContainers)
	assert.Equal(t, 1, s.out.counts.NoContainer)
	assert.Equal(t, 1, s.out.message.of(ownerOf(dockerPath(7)).container).profile.Samples().Len())
	assert.Equal(t, 1, s.out.message.of("").profile.Samples().Len())
}

// TestCgroupThatAScanHasMissed verifies that a cgroup which an incomplete scan has not found is looked for again.
func TestCgroupThatAScanHasMissed(t *testing.T) {
	c := emptyCgroups(t)
	whole := c.mount
	loop := filepath.Join(t.TempDir(), "loop")
	require.NoError(t, os.Symlink(loop, loop))
	dir := filepath.Join(whole, dockerPath(7))
	require.NoError(t, os.MkdirAll(dir, 0o700))
	info, err := os.Lstat(dir)
	require.NoError(t, err)
	id := perfring.CgroupID(info)

	c.mount = filepath.Join(loop, "cgroup") // too many levels of symbolic links
	assert.Zero(t, c.owner(id, 1))
	assert.True(t, c.missed)
	_, known := c.find(id)
	assert.False(t, known, "it may exist")
	c.mount, c.nextScan = whole, time.Time{}
	c.owner(id, 1)
	assert.False(t, c.missed)
	_, known = c.find(id)
	assert.True(t, known)
}
