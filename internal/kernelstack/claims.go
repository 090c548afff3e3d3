// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"errors"
	"io/fs"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// claims are the cgroups whose names claim the id of one container. Whoever may make a cgroup can name it after any
// container. The directories above the cgroup show who that is: a domain begins at a directory in which a user may make
// cgroups who may not do so above it. A container counts as a user.
//
//	/                                                   domain of root
//	├─ system.slice
//	│  └─ docker-ID.scope                                 claims ID
//	├─ user.slice/user-1000.slice/user@1000.service     domain of uid 1000
//	│  └─ docker-ID.scope                                 claims ID
//	└─ docker/OTHER                                     domain of a container
//	   └─ docker-ID.scope                                 claims ID
//
// A cgroup has the id if all others that exist and claim it are in domains below its own. Of two domains side by side,
// either can be the impostor's.
type claims struct {
	all map[string]claim // by the cgroup's path; a container that is restarted has the same as before

	// The path of the cgroup that has the id, and its domain. The path is empty if no cgroup has the id, or if this is not
	// decided yet. The cgroup may be gone.
	holder, domain string

	// The time at which the last claim was found to be gone, and the holder before. The kernel does not announce that a
	// cgroup is removed, so until that time, the claim may have counted.
	since  int64
	before string
}

// Comparing claims of users takes at most a hundredth of the time; time that was not taken is saved up for decisionBurst.
const (
	decisionShare = 100
	decisionBurst = time.Second
)

// enter enters a claim. It returns the claim, which shares its memory with the other cgroups of the container.
func (c *cgroups) enter(of claim) claim {
	if of.dir == "" {
		return of
	}
	k := c.claims[of.owner.container]
	if k == nil {
		k = &claims{all: make(map[string]claim)}
		c.claims[of.owner.container] = k
	}
	if known, ok := k.all[of.dir]; ok {
		return known
	}
	k.all[of.dir] = of
	if k.holder != "" && !c.isBelow(k.domain, of.dir) {
		k.holder = ""
	}
	return of
}

// holds reports whether a claim is certain at a time, on the clock of the records. A claim to no container's id always is.
func (c *cgroups) holds(of claim, at int64) bool {
	if of.dir == "" {
		return true
	}
	k := c.claims[of.owner.container]
	if k == nil { // it is gone, and no other cgroup claims its id
		k = &claims{}
	}
	if k.holder != of.dir && !c.exists(k.holder) && c.mayDecide(k, of.dir) {
		c.decide(k, of.dir)
	}
	isComplete := at >= c.since && !c.missed // no claim is unknown
	if at < k.since {
		return k.before == of.dir && isComplete
	}
	return k.holder == of.dir && (isComplete || k.domain == "") // no domain is above that of root
}

// mayDecide reports whether there is time to decide. Users can have samples of claims that never hold. A claim of root holds
// at once, and for long.
func (c *cgroups) mayDecide(k *claims, dir string) bool {
	return len(k.all) <= 1 || !time.Now().Before(c.nextDecision) || !c.isBelow("", dir)
}

// decide makes a cgroup the holder of the id that it claims if all other claims that count are below it.
func (c *cgroups) decide(k *claims, dir string) {
	if len(k.all) > 1 {
		defer c.limitDecisions(time.Now())
	}
	domain := c.domainOf(dir)
	for rival := range k.all {
		switch {
		case rival == dir, c.isBelow(domain, rival):
		case c.exists(rival):
			return
		default: // what is gone claims nothing
			delete(k.all, rival)
			k.since, k.before = perfring.Monotonic.Now(), k.holder
		}
	}
	k.holder, k.domain = dir, domain
}

// limitDecisions postpones decisions after one that has begun at a time.
func (c *cgroups) limitDecisions(began time.Time) {
	now := time.Now()
	if saved := now.Add(-decisionBurst); c.nextDecision.Before(saved) {
		c.nextDecision = saved
	}
	c.nextDecision = c.nextDecision.Add(decisionShare * now.Sub(began))
}

// exists reports whether a cgroup exists, or may exist: in a mount that shows a part of the hierarchy, this is not known.
func (c *cgroups) exists(dir string) bool {
	if dir == "" {
		return false
	}
	_, err := os.Lstat(c.mount + dir)
	return !c.isWhole || !errors.Is(err, fs.ErrNotExist)
}

// isBelow reports whether a cgroup is in a domain below another. In a mount that shows a part of the hierarchy, a cgroup
// can have two paths, so this is not known.
func (c *cgroups) isBelow(domain, dir string) bool {
	for at := range between(domain, dir) {
		if isDelegated(at) {
			return c.isWhole // without a system call: a user can make many such cgroups
		}
	}
	_, ok := c.nextDomain(domain, dir)
	return ok && c.isWhole
}

// domainOf returns the innermost domain that a cgroup is in: the path of a directory, empty for the root.
func (c *cgroups) domainOf(dir string) (domain string) {
	for next, ok := c.nextDomain("", dir); ok; next, ok = c.nextDomain(domain, dir) {
		domain = next
	}
	return domain
}

// nextDomain returns the outermost domain below another that a cgroup is in. It reports false if there is none.
func (c *cgroups) nextDomain(domain, dir string) (next string, ok bool) {
	above, _ := c.writer(domain)
	for at := range between(domain, dir) {
		uid, only := c.writer(at)
		if !only || uid != 0 && uid != above || isDelegated(at) {
			return at, true
		}
		above = uid
	}
	return "", false
}

// between returns the directories below one and above another, from the top.
func between(top, dir string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if !strings.HasPrefix(dir, top+"/") {
			return
		}
		for end := len(top) + 1; ; end++ {
			length := strings.IndexByte(dir[end:], '/')
			if length < 0 {
				return
			}
			if end += length; !yield(dir[:end]) {
				return
			}
		}
	}
}

// writer returns the one user who may make cgroups in a directory. It reports false if others may, too, or if this cannot
// be read.
func (c *cgroups) writer(dir string) (uid uint32, only bool) {
	info, err := os.Lstat(c.mount + dir)
	if err != nil {
		return 0, false
	}
	return perfring.CgroupWriter(info)
}
