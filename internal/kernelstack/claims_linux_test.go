// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// cgroupTree returns the directories of this test's cgroups. Their parent has the default type, which they
// inherit.
func cgroupTree(t *testing.T) *claimTree {
	t.Helper()
	mount := mountCgroup2(t)
	return &claimTree{mount, strings.TrimPrefix(dirOf(mount, ""), mount)}
}

// TestContestedCgroups verifies which of several real cgroups has the id that they claim.
func TestContestedCgroups(t *testing.T) {
	tree := cgroupTree(t)
	testContested(t, tree, func() *cgroups { return openClaims(t, tree.mount) })
}

// TestRestartedCgroups does the same as TestRestarted, with real cgroups.
func TestRestartedCgroups(t *testing.T) { testRestarted(t, cgroupTree(t)) }

// TestWholeHierarchy verifies that a scan finds out that the mount shows all of the hierarchy, and thus all claims.
func TestWholeHierarchy(t *testing.T) {
	tree := cgroupTree(t)
	paths := []string{"/docker/" + idA, userDir + "/docker-" + idA + ".scope"}
	for _, path := range paths {
		tree.make(t, path)
	}
	defer tree.remove(t, "")
	c, err := newCgroups(tree.mount, "/proc")
	require.NoError(t, err)
	require.NoError(t, c.begin())
	assert.Equal(t, []string{idA, ""}, ownersOf(t, c, tree, paths))
}

// TestClaimedContainer has one thread work in a container that is restarted again and again, and another in a
// user's cgroup, which is older and has the container's name. Only the container's samples have its id.
func TestClaimedContainer(t *testing.T) {
	mount := mountCgroup2(t)
	id := fmt.Sprintf("%064x", 0xc1a1)
	container, impostor := "/system.slice/docker-"+id+".scope", userDir+"/app.slice/crio-"+id+".scope"
	makeCgroup(t, mount, impostor)
	for dir := impostor; dir != filepath.Dir(userDir); dir = filepath.Dir(dir) {
		require.NoError(t, os.Chown(dirOf(mount, dir), 65534, 65534))
	}
	require.Error(t, os.Rename(dirOf(mount, impostor), dirOf(mount, impostor)+"2"), "the kernel renames no cgroup")
	makeCgroup(t, mount, container)

	const starts = 4
	m, missing := sampleWhile(t, mount, func() {
		for n := range starts {
			makeCgroup(t, mount, container)
			var wait sync.WaitGroup
			for path, thread := range map[string]string{container: "container", impostor: "impostor"} {
				wait.Go(func() { workIn(t, mount, path, fmt.Sprintf("%s%d", thread, n), lifetime) })
			}
			wait.Wait()
			kerneltest.RemoveCgroup(t, dirOf(mount, container))
		}
	})
	require.NoError(t, missing)
	threads := samplesByThread(t, m)
	impostors := 0
	for n := range starts {
		of, by := threads[fmt.Sprint("container", n)], threads[fmt.Sprint("impostor", n)]
		t.Logf("start %d: %d samples of the container have its id, %d have none; of the impostor, %d and %d", n, of[id], of[""], by[id], by[""])
		assert.Positive(t, of[id])
		assert.Len(t, of, 1, "samples of the container without its id")
		assert.Zero(t, by[id])
		impostors += by[""]
	}
	assert.Positive(t, impostors)
	assert.GreaterOrEqual(t, m.NoContainer, impostors)
}
