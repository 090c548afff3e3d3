package perfring

import (
	"errors"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// refreshInterval is the time between two looks at which CPUs are online.
const refreshInterval = time.Second

// refreshRings is refreshCPUs, and tells that events may have been missed.
func (r *Reader) refreshRings(now time.Time) error {
	opened, err := r.refreshCPUs(now)
	for _, cpu := range opened {
		// With the time of now: what happened before the ring was there is older.
		r.pending = append(r.pending, r.own(TypeMissed, cpu))
	}
	return err
}

// refreshCPUs opens rings on CPUs that are online and have none, or one that
// stopped working while the CPU was offline, and closes those of CPUs that are
// offline. It returns the CPUs whose ring is new.
func (r *Reader) refreshCPUs(now time.Time) (opened []int, err error) {
	r.refresh = now.Add(refreshInterval)
	online, err := onlineCPUs(r.opts.SysFS)
	guessed := errors.Is(err, fs.ErrNotExist)
	if guessed {
		online = r.possibleCPUs()
	} else if err != nil {
		return nil, err
	}
	r.drain()
	var closeErrs []error
	r.rings = slices.DeleteFunc(r.rings, func(ring *ring) bool {
		alive := ring.alive()
		r.addLost(r.own(TypeLost, ring.cpu), ring.lost.upTo(ring.lostTotal))
		if i, ok := slices.BinarySearch(online, ring.cpu); ok && alive {
			online = slices.Delete(online, i, i+1)
			return false
		}
		closeErrs = append(closeErrs, ring.close())
		return true
	})
	if err := errors.Join(closeErrs...); err != nil {
		return nil, err
	}
	for _, cpu := range online {
		ring, err := openRing(&r.opts, cpu)
		if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
			continue // offline again, or anyway
		}
		if guessed && cpu > 0 && errors.Is(err, unix.EINVAL) {
			r.cpus = cpu // there is none with this number, nor with a higher one
			break
		}
		if err != nil {
			return opened, err
		}
		r.rings = append(r.rings, ring)
		if err := r.poller.add(ring.fd); err != nil {
			return opened, err
		}
		opened = append(opened, cpu)
	}
	return opened, nil
}

// possibleCPUs returns the numbers that CPUs can have, where sysfs does not tell.
func (r *Reader) possibleCPUs() []int {
	const most = 8192 // NR_CPUS of arch/x86/Kconfig
	if r.cpus == 0 {
		r.cpus = most
	}
	all := make([]int, r.cpus)
	for i := range all {
		all[i] = i
	}
	return all
}
