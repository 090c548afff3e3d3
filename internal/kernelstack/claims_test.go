// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// later is the time of a sample that is newer than all records.
const later = math.MaxInt64

// none is the number of the claim that has an id if none has.
const none = -1

const idC = "2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c2c"

// userDir and userDir2 are the cgroups of users. Their directories belong to them, but in tests without privileges only their
// names show this.
const (
	userDir  = "/user.slice/user-1000.slice/user@1000.service"
	userDir2 = "/user.slice/user-1001.slice/user@1001.service"
)

// contested are cgroups that claim to be the container idA.
var contested = []struct {
	name   string
	claims []string
	has    int            // which of them has the id
	chown  map[string]int // directories that belong to users
	open   string         // a directory that all users can write to
}{
	{name: "a user's container, alone", claims: []string{userDir + "/user.slice/docker-" + idA + ".scope"}},
	{name: "a container in a container, alone", claims: []string{"/docker/" + idB + "/docker/" + idA}},
	{name: "a container in a service's directory, alone",
		claims: []string{"/system.slice/app.service/docker-" + idA + ".scope"}, chown: map[string]int{"/system.slice/app.service": 500}},

	{name: "root before a user", claims: []string{"/system.slice/docker-" + idA + ".scope", userDir + "/a/crio-" + idA + ".scope"}},
	{name: "root's service manager before a user's", claims: []string{
		"/user.slice/user-0.slice/user@0.service/a/libpod-" + idA + ".scope", userDir + "/a/libpod-" + idA + ".scope"}},
	{name: "root before a user's pod", claims: []string{
		"/kubepods/burstable/pod12-34/" + idA, userDir + "/kubepods/burstable/pod12-34/" + idA}},
	{name: "root before a service's user",
		claims: []string{"/system.slice/docker-" + idA + ".scope", "/system.slice/app.service/a/docker-" + idA + ".scope"},
		chown:  map[string]int{"/system.slice/app.service": 500, "/system.slice/app.service/a": 500}},
	{name: "root before a directory that others can write to",
		claims: []string{"/system.slice/docker-" + idA + ".scope", "/jobs/docker-" + idA + ".scope"}, open: "/jobs"},
	{name: "root before a container", claims: []string{"/docker/" + idA, "/docker/" + idB + "/docker/" + idA}},
	{name: "root before a container's service", claims: []string{
		"/kubepods.slice/kubepods-pod12.slice/cri-containerd-" + idA + ".scope",
		"/kubepods.slice/kubepods-pod34.slice/cri-containerd-" + idB + ".scope/system.slice/docker-" + idA + ".scope"}},
	{name: "root before what may be a container", claims: []string{"/docker/" + idA, "/default/" + idB + "/docker/" + idA}},
	{name: "root before LXC", claims: []string{"/docker/" + idA, "/lxc.payload.web/docker/" + idA}},
	{name: "root before systemd-nspawn", claims: []string{"/docker/" + idA, "/machine.slice/systemd-nspawn@web.service/payload/docker/" + idA}},
	{name: "root before a machine", claims: []string{"/docker/" + idA, "/machine.slice/machine-web.scope/docker/" + idA}},
	{name: "root before many", claims: []string{
		"/docker/" + idA, userDir + "/docker/" + idA, userDir2 + "/docker/" + idA, "/docker/" + idB + "/docker/" + idA, "/docker/" + idC + "/docker/" + idA}},
	{name: "root, whose container belongs to the user in it, before a user",
		claims: []string{"/machine.slice/libpod-" + idA + ".scope/container", userDir + "/libpod-" + idA + ".scope"},
		chown:  map[string]int{"/machine.slice/libpod-" + idA + ".scope": 100000}},

	{name: "a user before the user's containers", claims: []string{
		userDir + "/user.slice/docker-" + idA + ".scope", userDir + "/app.slice/docker-" + idB + ".scope/docker-" + idA + ".scope"}},
	{name: "a user before the users in it",
		claims: []string{userDir + "/a/docker-" + idA + ".scope", userDir + "/b/c/docker-" + idA + ".scope"},
		chown:  map[string]int{userDir: 1000, userDir + "/a": 1000, userDir + "/b": 1000, userDir + "/b/c": 100000}},
	{name: "a container before the containers in it", claims: []string{
		"/docker/" + idB + "/kubepods/pod12/" + idA, "/docker/" + idB + "/kubepods/pod34/" + idC + "/docker-" + idA + ".scope"}},

	{name: "two of root", claims: []string{"/docker/" + idA, "/system.slice/docker-" + idA + ".scope"}, has: none},
	{name: "two of root and a user", claims: []string{"/docker/" + idA, "/system.slice/docker-" + idA + ".scope", userDir + "/docker/" + idA}, has: none},
	{name: "two of a user", claims: []string{userDir + "/a/docker-" + idA + ".scope", userDir + "/b/docker-" + idA + ".scope"}, has: none},
	{name: "two of a user, who owns the directories",
		claims: []string{userDir + "/a/docker-" + idA + ".scope", userDir + "/b/docker-" + idA + ".scope"},
		chown:  map[string]int{userDir: 1000, userDir + "/a": 1000, userDir + "/b": 1000}, has: none},
	{name: "two users", claims: []string{userDir + "/docker-" + idA + ".scope", userDir2 + "/docker-" + idA + ".scope"}, has: none},
	{name: "two containers", claims: []string{"/docker/" + idB + "/docker/" + idA, "/docker/" + idC + "/docker/" + idA}, has: none},
	{name: "a container and a user", claims: []string{"/docker/" + idB + "/docker/" + idA, userDir + "/docker-" + idA + ".scope"}, has: none},
	{name: "a user and another user's container", claims: []string{
		userDir + "/docker-" + idA + ".scope", userDir2 + "/docker-" + idB + ".scope/docker-" + idA + ".scope"}, has: none},
}

// claimTree makes directories that stand for the cgroups below a mount.
type claimTree struct {
	mount string
	root  string // prefix of this test's paths
}

// make makes a directory and its parents, and returns its path below the mount.
func (tree *claimTree) make(t *testing.T, path string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(tree.mount+tree.root+path, 0o755))
	return tree.root + path
}

// remove removes a directory with its children.
func (tree *claimTree) remove(t *testing.T, path string) {
	t.Helper()
	removeDirs(t, tree.mount+tree.root+path)
}

// removeDirs removes a directory. The files in a cgroup are removed with it.
func removeDirs(t *testing.T, dir string) {
	t.Helper()
	var dirs []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	}))
	for _, dir := range slices.Backward(dirs) {
		require.NoError(t, os.Remove(dir))
	}
}

// id returns the id of a cgroup.
func (tree *claimTree) id(t *testing.T, path string) uint64 {
	t.Helper()
	info, err := os.Stat(tree.mount + tree.root + path)
	require.NoError(t, err)
	return perfring.CgroupID(info)
}

// ownersOf returns the owners of cgroups, in the order of their paths.
func ownersOf(t *testing.T, c *cgroups, tree *claimTree, paths []string) (owners []string) {
	t.Helper()
	for _, path := range paths {
		c.nextDecision = time.Time{}
		o := c.owner(tree.id(t, path), later)
		assert.Equal(t, o.known, o.container != "", path)
		owners = append(owners, o.container)
	}
	return owners
}

// testContested has cgroups claim an id, announced by records in each possible order, or found by a scan.
func testContested(t *testing.T, tree *claimTree, open func() *cgroups) {
	for _, test := range contested {
		t.Run(test.name, func(t *testing.T) {
			if os.Getuid() != 0 && len(test.chown) > 0 {
				t.Skip("not root: directories of other users are not tested")
			}
			for _, path := range test.claims {
				tree.make(t, path)
			}
			defer tree.remove(t, "")
			for path, uid := range test.chown {
				require.NoError(t, os.Chown(tree.mount+tree.root+path, uid, uid))
			}
			if test.open != "" {
				require.NoError(t, os.Chmod(tree.mount+tree.root+test.open, 0o777))
			}
			want := make([]string, len(test.claims))
			if test.has != none {
				want[test.has] = idA
			}

			for first := range test.claims {
				c := open()
				inOrder := slices.Concat(test.claims[first:], test.claims[:first])
				for n, path := range inOrder {
					c.note(&perfring.Cgroup{ID: tree.id(t, path), Path: tree.root + path})
					ownersOf(t, c, tree, inOrder[:n+1]) // what it decides before it knows all must not last
				}
				assert.Equal(t, want, ownersOf(t, c, tree, test.claims), "records, from %d", first)
				c.claims = make(map[string]*claims)
				for _, path := range slices.Backward(inOrder) {
					c.note(&perfring.Cgroup{ID: tree.id(t, path), Path: tree.root + path})
				}
				assert.Equal(t, want, ownersOf(t, c, tree, test.claims), "all records before samples, to %d", first)
			}
			c := open()
			_ = c.begin() // a directory that is no cgroup is not the root
			c.isWhole = true
			assert.Equal(t, want, ownersOf(t, c, tree, test.claims), "scan")
		})
	}
}

// openClaims returns an empty cgroups for a directory that stands for the whole hierarchy.
func openClaims(t *testing.T, mount string) *cgroups {
	c := emptyCgroups(t)
	c.mount, c.isWhole, c.nextScan = mount, true, time.Now().Add(time.Hour)
	return c
}

// TestContested verifies which of several cgroups has the id that they claim, with directories that are no cgroups.
func TestContested(t *testing.T) {
	tree := &claimTree{t.TempDir(), "/hierarchy"}
	testContested(t, tree, func() *cgroups { return openClaims(t, tree.mount) })
}

// TestContestedSample: a sample of a cgroup that does not have the id that it claims is sent without a
// container, and counted.
func TestContestedSample(t *testing.T) {
	tree := &claimTree{t.TempDir(), ""}
	c := openClaims(t, tree.mount)
	s := sessionOf(t, &Sampler{Options: Options{Threads: byCycles, MaxSamples: 100, Procfs: c.procfs, Containers: true}}, c, time.Now())
	require.NoError(t, os.Mkdir(filepath.Join(c.procfs, "self"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(c.procfs, "self/cgroup"), []byte("0::/\n"), 0o600))
	record := func(id uint64, path string) []perfring.Record {
		return []perfring.Record{
			{Type: perfring.TypeCgroup, Cgroup: &perfring.Cgroup{ID: id, Path: tree.make(t, path)}},
			{Type: perfring.TypeSample, Stack: []uint64{leaf}, InCgroup: id},
		}
	}
	addAll(t, s, perfring.Batch{Records: slices.Concat(record(7, "/docker/"+idA), record(8, userDir+"/docker-"+idA+".scope"))})
	assert.Equal(t, 1, s.out.counts.NoContainer)
	assert.Equal(t, 1, s.out.message.of(idA).profile.Samples().Len())
	assert.Equal(t, 1, s.out.message.of("").profile.Samples().Len())
}

// TestRestarted verifies that removed cgroups claim nothing: a restarted container has its id again, beside
// an older impostor, which has the id only in between.
func TestRestarted(t *testing.T) {
	testRestarted(t, &claimTree{t.TempDir(), "/hierarchy"})
}

func testRestarted(t *testing.T, tree *claimTree) {
	container, impostor := "/system.slice/docker-"+idA+".scope", userDir+"/a/docker-"+idA+".scope"
	c := openClaims(t, tree.mount)
	next := uint64(0)
	start := func(path string) (id uint64) { // a directory that is no cgroup can have the id of one that is gone
		next++
		c.note(&perfring.Cgroup{ID: next, Path: tree.make(t, path)})
		return next
	}
	ownedAt := func(id uint64, at int64) bool {
		c.nextDecision = time.Time{}
		return c.owner(id, at) == in(idA)
	}
	owns := func(id uint64) bool { return ownedAt(id, later) }
	tree.make(t, "/system.slice")
	first := start(container)
	assert.True(t, owns(first))
	spoof := start(impostor)
	for range 3 {
		assert.False(t, owns(spoof))
		assert.True(t, owns(first))
		before := perfring.Monotonic.Now()
		tree.remove(t, container)
		assert.True(t, ownedAt(first, before), "a sample that is read when it is gone")
		assert.False(t, ownedAt(spoof, before), "the container existed then")
		assert.True(t, ownedAt(first, before), "an old sample, still")
		assert.True(t, owns(spoof), "no cgroup above claims the id any more")
		again := start(container)
		assert.False(t, owns(spoof), "before the first sample of the container")
		assert.True(t, owns(again))
		assert.True(t, owns(first), "it is the same container")
		first = again
	}

	brief := start(userDir + "/b/docker-" + idA + ".scope")
	tree.remove(t, userDir+"/b")
	assert.False(t, owns(brief), "an impostor that was gone before its record was read")
	assert.True(t, owns(first))

	tree.remove(t, container)
	other := start(userDir2 + "/docker-" + idA + ".scope")
	assert.False(t, owns(spoof))
	assert.False(t, owns(other))
	tree.remove(t, userDir2)
	assert.True(t, owns(spoof), "the other is gone")
	tree.remove(t, "")
}

// TestBriefContainer verifies that a container has its id even if it and its pod are gone before its record
// is read. Its path then does not win against others, because its owner is no longer known.
func TestBriefContainer(t *testing.T) {
	tree := &claimTree{t.TempDir(), ""}
	c := openClaims(t, tree.mount)
	c.note(&perfring.Cgroup{ID: 2, Path: "/jobs/pod/docker-" + idA + ".scope"})
	assert.Equal(t, in(idA), c.owner(2, later))
	c.note(&perfring.Cgroup{ID: 3, Path: tree.make(t, userDir+"/docker-"+idA+".scope")})
	assert.Equal(t, in(idA), c.owner(3, later))
	assert.Equal(t, owner{}, c.owner(2, later))
}

// TestPartOfHierarchy verifies that no cgroup has an id that several claim if the mount shows only a part of
// the hierarchy: the paths in records are then not relative to the mount.
func TestPartOfHierarchy(t *testing.T) {
	tree := &claimTree{t.TempDir(), ""}
	c := openClaims(t, tree.mount)
	c.isWhole = false
	c.note(&perfring.Cgroup{ID: 2, Path: "/docker/" + idA})
	assert.Equal(t, in(idA), c.owner(2, later))
	c.note(&perfring.Cgroup{ID: 3, Path: "/user.slice/user@1000.service/docker-" + idA + ".scope"})
	assert.Equal(t, owner{}, c.owner(2, later))
	assert.Equal(t, owner{}, c.owner(3, later))
}

// TestLostClaims verifies that while records may be missing, only cgroups in root's domain have their ids: a
// missing record may be of another claimant. A scan finds it.
func TestLostClaims(t *testing.T) {
	tree := &claimTree{t.TempDir(), ""}
	c := openClaims(t, tree.mount)
	c.note(&perfring.Cgroup{ID: 1 << 60, Path: tree.make(t, userDir+"/docker-"+idA+".scope")})
	c.note(&perfring.Cgroup{ID: 1<<60 + 1, Path: tree.make(t, "/docker/"+idB)})
	assert.Equal(t, in(idA), c.owner(1<<60, later))
	for range 2 { // the second time, all were decided before
		c.miss(later)
		assert.Equal(t, owner{}, c.owner(1<<60, later))
		assert.Equal(t, in(idB), c.owner(1<<60+1, later))
		c.missed = false
		assert.Equal(t, in(idA), c.owner(1<<60, later))
	}

	tree.make(t, "/docker/"+idA)
	c.miss(later)
	c.nextScan = time.Time{}
	assert.Equal(t, in(idB), c.owner(1<<60+1, later), "the scan is not for its sake")
	c.isWhole = true // the scan found no root in these directories
	assert.False(t, c.missed)
	assert.Equal(t, owner{}, c.owner(1<<60, later))
	assert.Equal(t, in(idA), c.owner(tree.id(t, "/docker/"+idA), later))
}

// TestLossOfRecords: each way in which records of cgroups can be lost makes the claims uncertain, until the
// directories are read again.
func TestLossOfRecords(t *testing.T) {
	for _, test := range []struct {
		name   string
		cpus   []int
		batch  perfring.Batch
		missed bool
	}{
		{name: "nothing is lost"},
		{name: "lost samples", batch: perfring.Batch{Lost: 1, Blind: []perfring.Interval{{From: 5, To: 12}}}},
		{name: "lost names", batch: perfring.Batch{Names: perfring.NameBatch{Blind: []perfring.Interval{{From: 5, To: 12}}}}, missed: true},
		{name: "before a scan", batch: perfring.Batch{Names: perfring.NameBatch{Blind: []perfring.Interval{{From: 5, To: 10}}}}},
		{name: "CPUs that are not recorded", cpus: []int{0}, missed: true},
	} {
		c := emptyCgroups(t)
		require.NoError(t, os.Mkdir(filepath.Join(c.procfs, "self"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(c.procfs, "self/cgroup"), []byte("0::/\n"), 0o600))
		s := sessionOf(t, &Sampler{Options: Options{
			Threads: Running{Event: EventCycles, Frequency: 97, CPUs: test.cpus}, Procfs: c.procfs, Containers: true,
		}}, c, time.Now())
		c.since = 10
		test.batch.At = 20
		addAll(t, s, test.batch)
		assert.Equal(t, test.missed, c.missed, test.name)
	}
}

// TestIncompleteScan verifies that a failed scan does not count as complete.
func TestIncompleteScan(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	c := openClaims(t, file+"/not-a-directory")
	c.miss(later)
	require.Error(t, c.scan())
	assert.True(t, c.missed)
}

// TestDecisionsAreLimited verifies that comparing the claims of users takes bounded time. Until there is time
// again, such a cgroup has no id. No comparison is needed for a cgroup whose id has no other claimant, that
// has the id already, or that only root can have made.
func TestDecisionsAreLimited(t *testing.T) {
	tree := &claimTree{t.TempDir(), ""}
	c := openClaims(t, tree.mount)
	note := func(id uint64, path string) { c.note(&perfring.Cgroup{ID: id, Path: tree.make(t, path)}) }
	note(0, userDir+"/docker-"+idA+".scope")
	note(1, userDir2+"/docker-"+idA+".scope")
	for began := time.Now(); !time.Now().Before(c.nextDecision); {
		require.Equal(t, owner{}, c.owner(0, later))
		require.Less(t, time.Since(began), time.Minute, "it compares claims all the time")
	}

	noTime := func() { c.nextDecision = time.Now().Add(time.Hour) }
	noTime()
	note(2, userDir+"/docker-"+idB+".scope")
	assert.Equal(t, in(idB), c.owner(2, later), "there is no other")
	note(3, userDir+"/docker-"+idC+".scope/docker-"+idB+".scope")
	assert.Equal(t, in(idB), c.owner(2, later), "it has the id already")
	c.claims[idB].holder = ""
	assert.Equal(t, owner{}, c.owner(2, later))
	c.nextDecision = time.Time{}
	assert.Equal(t, in(idB), c.owner(2, later))
	assert.False(t, c.nextDecision.IsZero())
	noTime()
	note(4, "/docker/"+idB)
	assert.Equal(t, owner{}, c.owner(2, later))
	assert.Equal(t, in(idB), c.owner(4, later), "only root can have made it")
}

// TestManyImpostors has a user make as many cgroups as are remembered, with long paths, all of which claim
// one id. They take a bounded amount of memory, and the container with this id keeps it.
func TestManyImpostors(t *testing.T) {
	tree := &claimTree{t.TempDir(), ""}
	c := openClaims(t, tree.mount)
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	above, below := strings.Repeat("/"+strings.Repeat("x", 30), 25), strings.Repeat("/"+strings.Repeat("y", 250), 11)
	for n := range maxNew - 1 {
		c.note(&perfring.Cgroup{ID: uint64(n + 10), Path: fmt.Sprintf("%s/%d%s/docker-%s.scope%s", userDir, n, above, idA, below)})
	}
	took := heap() - before
	t.Logf("%d claims take %d bytes each", len(c.claims[idA].all), took/maxNew)
	assert.Len(t, c.claims[idA].all, maxNew-1)
	assert.Less(t, took, int64(maxNew*(maxPath+500)))
	c.note(&perfring.Cgroup{ID: 1, Path: tree.make(t, "/docker/"+idA)})
	assert.Equal(t, in(idA), c.owner(1, later))
	runtime.KeepAlive(c)
}

// TestClaimOf verifies which cgroup is the container.
func TestClaimOf(t *testing.T) {
	for _, test := range []struct{ path, dir string }{
		{"/", ""},
		{"/default/" + idA, ""},
		{"/docker/" + idA, "/docker/" + idA},
		{"docker/" + idA + "/", "/docker/" + idA},
		{"/docker/" + idA + "/init.scope", "/docker/" + idA},
		{"/docker/" + idA + "/docker/" + idB + "/a", "/docker/" + idA + "/docker/" + idB},
		{"/docker/" + idA + "/docker/" + idA, "/docker/" + idA},
		{"/docker/" + idA + "/docker/" + idB + "/crio-" + idA + ".scope/a", "/docker/" + idA},
		{"/default/" + idA + "/docker/" + idA, "/default/" + idA + "/docker/" + idA},
		{strings.Repeat("/a", maxDepth-1) + "/docker-" + idA, strings.Repeat("/a", maxDepth-1) + "/docker-" + idA},
		{strings.Repeat("/a", maxDepth) + "/docker-" + idA, ""},
		{"/" + strings.Repeat("a", maxPath) + "/docker-" + idA, ""},
		{"/docker/" + idA + strings.Repeat("/a", 2*maxDepth) + strings.Repeat("a", maxPath), "/docker/" + idA},
	} {
		of := claimOf(test.path)
		assert.Equal(t, test.dir, of.dir, test.path)
		if of.dir != "" {
			assert.Equal(t, ownerOf(test.path), of.owner, test.path)
		} else {
			assert.Empty(t, of.owner.container, test.path)
		}
	}
}
