// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// ErrContainers says that samples have no container, or not all of them.
var ErrContainers = errors.New("containers are not known")

// rootCgroup is the id of the root of a hierarchy (cgroup_setup_root in kernel/cgroup/cgroup.c).
const rootCgroup = 1

// cgroups holds the owners of cgroups, by their ids. An id is the number of its directory's inode, and is not used again;
// the directory cannot be renamed. So an owner never changes, and is still right when the cgroup is gone. If several
// cgroups claim to be the same container, their places decide which one is: see claims.
//
// It learns of a cgroup from the record that perf writes when the cgroup is made, or from a scan of the directories: one
// at the start, and more when samples have unknown ids or records are lost.
//
//	records   ──────────●─────●──●─────────●────▶  note
//	scan      ●──────────────────────?──────────▶  all cgroups that exist
//	samples   ─────○──────○──○───○─────○──○──○──▶  owner
type cgroups struct {
	mount    string // where the hierarchy is mounted
	isWhole  bool   // the mount shows all of the hierarchy
	isHybrid bool   // a container may be in hierarchies of cgroup v1 only
	procfs   string

	// Cgroups that are gone are forgotten in two steps: when there are many, the owners become the old ones, and a scan
	// begins new ones. So a sample finds its cgroup even if it was gone before that.
	owners, old map[uint64]claim
	scanned     int // how many owners there were at the beginning

	claims       map[string]*claims // of owners, by the container's id
	nextDecision time.Time          // when claims of several cgroups to an id may be compared again

	nextScan time.Time // when a scan may be made again
	missed   bool      // records may have been lost since the last scan
	since    int64     // no record is missing since then, on the clock of the records, unless missed is true
}

// maxNew is how many new cgroups are recorded before the ones that no longer exist are forgotten. Each takes about 150
// bytes; a container takes 500 more, and 1,500 if its path is as long as it can be.
const maxNew = 1 << 14

// Scans for unknown cgroups are at least scanInterval apart, and take at most a hundredth of the time.
const (
	scanInterval = time.Second
	scanShare    = 100
)

// newCgroups returns cgroups that knows none yet. Errors wrap ErrContainers: this kernel does not record cgroups, or
// containers are not in the hierarchy that it records.
func newCgroups(mount, procfs string) (*cgroups, error) {
	c := &cgroups{mount: filepath.Clean(mount), procfs: procfs, owners: make(map[uint64]claim), claims: make(map[string]*claims)}
	if err := errors.Join(perfring.CheckCgroups(), c.findMount(), c.check()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrContainers, err)
	}
	return c, nil
}

// hybrid is the directory below /sys/fs/cgroup in which systemd mounts cgroup v2 beside hierarchies of v1. Runtimes look for
// it there: runc adds its containers to v2 since 1.1 (cgroups.IsCgroup2HybridMode). Others use v1 only.
const hybrid = "unified"

// findMount finds the mount of cgroup v2: the configured directory, or the hybrid one in it. Elsewhere, no runtime has its
// containers in cgroup v2.
func (c *cgroups) findMount() error {
	list, err := os.ReadFile(filepath.Join(c.procfs, "self", "mountinfo"))
	if err != nil {
		return err
	}
	types := make(map[string]string)
	for line := range strings.Lines(string(list)) { // of several mounts at one place, the last hides the others
		mount, device, _ := strings.Cut(line, " - ") // show_mountinfo in fs/proc_namespace.c
		if of, fields := strings.Fields(mount), strings.Fields(device); len(of) > 4 && len(fields) > 0 {
			types[of[4]] = fields[0]
		}
	}
	for _, mount := range []string{c.mount, filepath.Join(c.mount, hybrid)} {
		if types[mount] == "cgroup2" {
			c.mount, c.isHybrid = mount, hasV1Beside(mount, types)
			return nil
		}
	}
	return fmt.Errorf("%s is not a mount of cgroup v2, nor is %s in it", c.mount, hybrid)
}

// hasV1Beside reports whether a hierarchy of cgroup v1 is mounted in the directory in which v2 is; types has the type of each
// mount.
func hasV1Beside(mount string, types map[string]string) bool {
	for path, is := range types {
		if is == "cgroup" && filepath.Dir(path) == filepath.Dir(mount) {
			return true
		}
	}
	return false
}

// claimOf returns the claim of a cgroup. On a hybrid machine, a cgroup of the host can have processes of containers.
func (c *cgroups) claimOf(path string) claim {
	of := claimOf(path)
	if c.isHybrid && of.owner == host {
		return claim{}
	}
	return of
}

// check returns an error if perf records the cgroups of another hierarchy than that of cgroup v2, where containers are.
// This happens when the controller perf_event is mounted as v1, which is possible at any time: the kernel then moves all
// tasks to the root of the new hierarchy.
func (c *cgroups) check() error {
	list, err := os.ReadFile(filepath.Join(c.procfs, "self", "cgroup"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(list)) { // hierarchy:controllers:path
		if fields := strings.SplitN(line, ":", 3); len(fields) == 3 && slices.Contains(strings.Split(fields[1], ","), "perf_event") {
			return errors.New("the controller perf_event is mounted as cgroup v1: unmount it")
		}
	}
	return nil
}

// note adds a new cgroup.
func (c *cgroups) note(g *perfring.Cgroup) { c.add(g.ID, c.claimOf(g.Path)) }

func (c *cgroups) add(id uint64, of claim) {
	if len(c.owners)-c.scanned >= maxNew {
		_ = c.begin() // samples of cgroups that it cannot see are counted
	}
	c.set(id, of)
}

func (c *cgroups) set(id uint64, of claim) { c.owners[id] = c.enter(of) }

// miss notes that records of new cgroups may be missing up to a time. A scan that began later has found all cgroups that exist.
func (c *cgroups) miss(until int64) {
	if c != nil && until > c.since {
		c.missed = true
	}
}

// begin begins new owners with the cgroups that exist. Its error is that of scan.
func (c *cgroups) begin() error {
	c.old, c.owners, c.claims = c.owners, make(map[uint64]claim), make(map[string]*claims)
	c.missed = true
	err := c.scan()
	c.scanned = len(c.owners)
	return err
}

// owner returns the owner of a cgroup at a time, on the clock of the records.
func (c *cgroups) owner(id uint64, at int64) owner {
	if c == nil {
		return owner{}
	}
	of, ok := c.find(id)
	if (!ok || c.missed) && !time.Now().Before(c.nextScan) {
		_ = c.scan()
		if of, ok = c.find(id); !ok && !c.missed {
			c.add(id, claim{}) // it is gone, so there is no need to look again
		}
	}
	if !c.holds(of, at) {
		return owner{}
	}
	return of.owner
}

func (c *cgroups) find(id uint64) (of claim, ok bool) {
	if of, ok = c.owners[id]; !ok {
		of, ok = c.old[id]
	}
	return of, ok
}

// scan adds all cgroups that exist below the mount. Its error says which others are missing.
func (c *cgroups) scan() error {
	began := time.Now()
	if c.missed {
		c.since, c.missed = perfring.Monotonic.Now(), false
	}
	defer func() { c.nextScan = time.Now().Add(max(scanInterval, scanShare*time.Since(began))) }()
	isRoot := false
	_ = filepath.WalkDir(c.mount, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() { // a cgroup that cannot be read is gone
			if info, err := d.Info(); err == nil {
				isRoot = c.found(perfring.CgroupID(info), strings.TrimPrefix(path, c.mount), isRoot)
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			c.missed = true // too many open files, for example
		}
		return nil
	})
	c.isWhole = isRoot
	switch {
	case !isRoot:
		return fmt.Errorf("%w outside of the cgroup that is mounted at %s: mount the host's /sys/fs/cgroup there", ErrContainers, c.mount)
	case !c.recordsAll():
		return fmt.Errorf("%w: no controller is enabled in %s, so perf may see its root only: "+
			"enable one, as systemd does", ErrContainers, filepath.Join(c.mount, controllers))
	case c.isHybrid:
		return fmt.Errorf("%w if their runtime uses cgroup v1 only, which this machine has beside %s", ErrContainers, c.mount)
	}
	return nil
}

// found adds a cgroup that a scan found below the mount. It reports whether the mount shows the root, which comes first.
func (c *cgroups) found(id uint64, path string, isRoot bool) bool {
	isRoot = isRoot || id == rootCgroup
	of := c.claimOf(path)
	_, known := c.owners[id]
	switch {
	case known, !isRoot && of.owner == host: // above the mount, there may be a container
	case id == rootCgroup && !c.recordsAll():
	default:
		c.set(id, of)
	}
	return isRoot
}

// controllers is the file of a cgroup that says which controllers those below it have.
const controllers = "cgroup.subtree_control"

// recordsAll reports whether perf sees the cgroups below the root, which is mounted. Until a controller is enabled for
// them, perf_event may not be either, although it is meant to always be: then samples of all tasks have the root's id
// (cgroup_calc_subtree_ss_mask in kernel/cgroup/cgroup.c counts it in only when it is called for the root).
func (c *cgroups) recordsAll() bool {
	enabled, err := os.ReadFile(filepath.Join(c.mount, controllers))
	return err == nil && len(bytes.TrimSpace(enabled)) > 0
}
