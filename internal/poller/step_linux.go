// SPDX-License-Identifier: Apache-2.0

package poller

import (
	"context"
	"errors"
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// everyOrStep implements EveryOrStep. It returns early if the kernel does not report when the
// clock is set.
func everyOrStep(ctx context.Context, interval time.Duration, f func()) {
	set, err := notifyOfSteps()
	if err != nil {
		return
	}
	defer unix.Close(set) //nolint:errcheck // nothing was written
	p, err := New()
	if err != nil {
		return
	}
	defer p.Close() //nolint:errcheck // nothing was written
	if p.Add(set) != nil {
		return
	}
	wasSet := func() bool {
		var expirations [8]byte
		_, err := unix.Read(set, expirations[:])
		return errors.Is(err, unix.ECANCELED)
	}
	for p.Wait(ctx, time.Now().Add(interval), wasSet) == nil {
		f()
	}
}

// notifyOfSteps returns a timer that expires in the far future, but becomes readable when the
// wall clock is set (TFD_TIMER_CANCEL_ON_SET, timerfd_create(2), since Linux 3.0), including by
// a suspend.
func notifyOfSteps() (fd int, err error) {
	fd, err = unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return -1, err
	}
	in2038 := unix.ItimerSpec{Value: unix.Timespec{Sec: math.MaxInt32}}
	if err := unix.TimerfdSettime(fd, unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, &in2038, nil); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
