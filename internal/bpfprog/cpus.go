package bpfprog

import (
	"context"
	"errors"

	"github.com/kernelsym/kernelsym/internal/uevent"
)

// watchCPUs calls changed when the kernel says that a CPU came online or went offline,
// or when it may have said so, until ctx is done.
func watchCPUs(ctx context.Context, changed func()) {
	conn, err := uevent.Dial()
	if err != nil {
		return // what is done now and then has to do
	}
	defer conn.Close() //nolint:errcheck // nothing was written
	for ctx.Err() == nil {
		switch event, err := conn.Receive(ctx); {
		case errors.Is(err, uevent.ErrLost), err == nil && event.Subsystem == "cpu":
			changed()
		case err != nil && !errors.Is(err, uevent.ErrSyntax):
			return
		}
	}
}
