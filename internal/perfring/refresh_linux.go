// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cpu is a CPU from the time it comes online until it goes offline.
type cpu struct {
	number int

	// The inodes of directories in sysfs, 0 for a missing directory. A perf event dies with its
	// CPU, and this cannot be found out without interrupting the CPU. But whenever a CPU goes
	// offline, the kernel removes these directories, and when the CPU comes back, it makes new
	// ones (drivers/base/topology.c; drivers/base/cacheinfo.c, which does so even if going
	// offline fails halfway). An inode number of sysfs is not reused before 2^32 others were
	// used.
	topology, cache uint64
}

// look is the information of sysfs about CPUs.
type look struct {
	at      int64 // time before anything was read
	online  []cpu // sorted by number
	guessed bool  // sysfs is not mounted: online is empty
}

// look finds out which CPUs are online.
func (r *Reader) look() (look, error) {
	l := look{at: r.clock.Now()}
	numbers, err := OnlineCPUs(r.opts.SysFS)
	if errors.Is(err, fs.ErrNotExist) {
		l.guessed = true
		return l, nil
	}
	for _, n := range numbers {
		dir := filepath.Join(r.opts.SysFS, "devices", "system", "cpu", "cpu"+strconv.Itoa(n))
		l.online = append(l.online, cpu{n, inode(filepath.Join(dir, "topology")), inode(filepath.Join(dir, "cache"))})
	}
	return l, err
}

func inode(dir string) uint64 {
	info, err := os.Stat(dir)
	if err != nil {
		return 0
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

// RefreshCPUs opens rings on CPUs that came online, and closes the rings of CPUs that went
// offline. Call it when a uevent of the kernel says that a CPU changed (hotplug), and every few
// seconds, because uevents can get lost. If it fails, the Certain of later batches does not
// advance until it succeeds.
//
// If no ring has to change after a uevent, for example because a CPU went and came back, or if
// sysfs is not mounted, all rings are reopened. Without sysfs and without uevents, a CPU that
// goes offline and comes back goes unnoticed.
func (r *Reader) RefreshCPUs(hotplug bool) error {
	l, err := r.look()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.closed {
		return os.ErrClosed
	}
	if err != nil {
		r.state.incomplete = true
		return err
	}
	looked := r.state.looked
	changed, err := r.adjust(l, false)
	if err == nil && hotplug && (l.guessed || !changed) {
		r.state.looked = looked
		_, err = r.adjust(l, true)
	}
	return err
}

// MissesCPU reports whether records of a CPU without a ring may be missing before the Certain of the last batch,
// although no batch has a blind interval that says so. The CPU is in sysfs's list of online CPUs, which MissesCPU reads
// unless each possible CPU has a ring, or it is not in the list any more and has sent a uevent:
//
//	is listed           ┌─────────────────────────────────────┐
//	runs kernel threads  ┌───────────────────────────────────┐
//	runs tasks              ┌────────────────────────────┐
//	uevents                      ▲ online                        ▲ offline
//
// The CPU puts itself into the list before it enables interrupts (start_secondary in arch/x86/kernel/smpboot.c,
// secondary_start_kernel in arch/arm64/kernel/smp.c); user tasks follow last (sched_cpu_activate). The kernel sends
// each uevent before the CPU can change again (device_online in drivers/base/core.c, which holds the device's lock).
// So no record is missing if MissesCPU, called after Poll, returns false, and the socket has no uevent after that.
func (r *Reader) MissesCPU() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(r.state.main.blind) > 0: // RefreshCPUs has found it since
		return true
	case len(r.state.main.rings) == r.state.cpus:
		return false
	}
	online, err := OnlineCPUs(r.opts.SysFS)
	return err != nil || slices.ContainsFunc(online, r.lacksRing)
}

// lacksRing reports whether a CPU should have a ring, and has none.
func (r *Reader) lacksRing(number int) bool {
	return r.opts.wants(number) && !r.state.main.hasRing(number)
}

// hasRingsOf reports whether there are rings for some CPUs, as far as these should have any, and for no others.
func (r *Reader) hasRingsOf(online []cpu) bool {
	wanted := 0
	for _, c := range online {
		if r.lacksRing(c.number) {
			return false
		}
		if r.opts.wants(c.number) {
			wanted++
		}
	}
	return wanted == len(r.state.main.rings)
}

// hasRing reports whether there is a ring for a CPU.
func (s *stream) hasRing(number int) bool {
	_, has := slices.BinarySearchFunc(s.rings, number, func(g *ring, number int) int { return g.cpu.number - number })
	return has
}

// adjust closes the rings of CPUs that are not in a look, or all rings, and opens the missing
// ones. If it opens any, the time since the previous look is blind, and for some events if it closes
// any (runsOffline). It reports whether anything changed.
func (r *Reader) adjust(l look, all bool) (changed bool, err error) {
	r.state.incomplete = true
	r.drain()
	for _, s := range r.state.streams() {
		some, err := r.adjustStream(s, l, all)
		if err != nil {
			return true, err
		}
		changed = changed || some
	}
	r.state.looked, r.state.incomplete = l.at, false
	return changed, nil
}

// adjustStream is adjust for one stream.
func (r *Reader) adjustStream(s *stream, l look, all bool) (changed bool, err error) {
	missing := l.online
	if l.guessed {
		missing = r.possibleCPUs()
	}
	missing = slices.DeleteFunc(slices.Clone(missing), func(c cpu) bool { return !r.opts.wants(c.number) })
	var errs []error
	s.rings = slices.DeleteFunc(s.rings, func(g *ring) bool {
		if i := slices.Index(missing, g.cpu); i >= 0 && !all {
			missing = slices.Delete(missing, i, i+1)
			return false
		}
		changed = true
		s.lost += g.unannounced()
		errs = append(errs, g.close())
		return true
	})
	if err := errors.Join(errs...); err != nil {
		return true, err
	}
	opened, err := r.openRings(s, missing, l.guessed)
	slices.SortFunc(s.rings, func(a, b *ring) int { return a.cpu.number - b.cpu.number })
	if (opened || changed && runsOffline(s.opts.Event)) && r.state.looked != 0 {
		s.addBlind(r.state.looked, r.clock.Now(), false)
	}
	return changed || opened || err != nil, err
}

// runsOffline reports whether what an event records can still happen on a CPU that goes offline after its events have ended.
// Threads of the kernel that are bound to the CPU are parked only after that, and run once more to park (CPUHP_AP_PERF_ONLINE and
// CPUHP_AP_SMPBOOT_THREADS in include/linux/cpuhotplug.h). So there are switches, but no code is loaded, and no thread gets a name.
func runsOffline(event Event) bool {
	_, ok := event.(Switches)
	return ok
}

// openRings opens rings of a stream on CPUs, and reports whether any of them is or was online.
func (r *Reader) openRings(s *stream, cpus []cpu, guessed bool) (some bool, err error) {
	for _, c := range cpus {
		g, err := r.open(&s.opts, c)
		if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
			some = some || !guessed // it is offline again, or was never online
			continue
		}
		if guessed && len(r.opts.CPUs) == 0 && c.number > 0 && errors.Is(err, unix.EINVAL) {
			r.state.cpus = c.number // no CPU has this number or a higher one
			return some, nil
		}
		if err != nil {
			return some, err
		}
		if s == &r.state.main {
			err = r.poller.Add(g.fd)
		}
		if err != nil {
			return some, errors.Join(err, g.close())
		}
		some = true
		s.rings = append(s.rings, g)
	}
	return some, nil
}

// possibleCPUs returns all CPUs that may exist. It is for systems without sysfs.
func (r *Reader) possibleCPUs() []cpu {
	const most = 8192 // NR_CPUS of arch/x86/Kconfig
	if r.state.cpus == 0 {
		r.state.cpus = most
	}
	all := make([]cpu, r.state.cpus)
	for i := range all {
		all[i].number = i
	}
	return all
}

// reopenAfterSleep reopens all rings if the machine was suspended since the last call: during a
// suspend, all CPUs except the first are offline, and no uevent says so. The time from that
// call to now is blind, or more if a CPU may have come or gone before that call.
func (r *Reader) reopenAfterSleep(now int64) {
	least, most := r.slept()
	if least > r.state.mostSlept && !r.state.closed {
		l, err := r.look()
		if err == nil {
			if r.hasRingsOf(l.online) {
				r.state.looked = r.state.awake
			}
			_, err = r.adjust(l, true)
		}
		if err != nil {
			r.state.incomplete = true
			return // the next Poll tries again
		}
	}
	r.state.awake, r.state.mostSlept = now, most
}

// slept returns bounds of the time for which the machine has been suspended since it started.
func slept() (least, most int64) {
	const rounding = int64(time.Microsecond)
	before := time.Since(start)
	boot := Boottime.Now()
	after := time.Since(start)
	return boot - int64(after) - rounding, boot - int64(before)
}

// start is when the process started, on the clock that stops during a suspend. Any instant
// would do: only differences count.
var start = time.Now()
