// SPDX-License-Identifier: Apache-2.0

// Package uevent receives the kernel's events about kobjects, which come and go below /sys.
//
// The kernel sends each event as one message to group 1 of a netlink socket of the kind
// NETLINK_KOBJECT_UEVENT: a line "ACTION@DEVPATH" and variables "NAME=VALUE", each ended by a
// zero byte (kobject_uevent_env in lib/kobject_uevent.c). Unlike other netlink messages, it has
// no header.
package uevent

import (
	"bytes"
	"errors"
	"fmt"
)

// An Event says what happened to a kobject.
type Event struct {
	Action    string // "add", "remove", "change" and others
	DevPath   string // below /sys, such as "/module/xfs"
	Subsystem string // such as "module"

	// Synthetic says that user space asked for the event, through a file "uevent" in sysfs, as
	// `udevadm trigger` does for all kobjects: nothing has happened. The kernel reports this
	// since Linux 4.13.
	Synthetic bool
}

var (
	// ErrLost says that the socket had no room for events. It is not known which events were
	// lost. Later events are received.
	ErrLost = errors.New("kernel events were lost: the socket buffer was full")

	// ErrUnreachable says that no events arrive in this network namespace, or that this cannot
	// be found out.
	ErrUnreachable = errors.New("the kernel sends no events to this network namespace because the initial user " +
		"namespace does not own it: run in the network namespace of the host (hostNetwork: true) or outside user namespaces (hostUsers: true)")

	// ErrSyntax says that a message is not an event.
	ErrSyntax = errors.New("not a kernel event")
)

// maxEvent is the size of the largest message: UEVENT_BUFFER_SIZE of include/linux/kobject.h,
// plus the line before the variables.
const maxEvent = 2048 + 4096

// parse parses a message.
func parse(message []byte) (Event, error) {
	line, rest, ok := bytes.Cut(message, []byte{0})
	if !ok || bytes.IndexByte(line, '@') < 1 {
		return Event{}, fmt.Errorf("%w: %.80q", ErrSyntax, message)
	}
	var e Event
	for variable := range bytes.SplitSeq(rest, []byte{0}) {
		name, value, _ := bytes.Cut(variable, []byte("="))
		switch string(name) {
		case "ACTION":
			e.Action = string(value)
		case "DEVPATH":
			e.DevPath = string(value)
		case "SUBSYSTEM":
			e.Subsystem = string(value)
		case "SYNTH_UUID":
			e.Synthetic = true
		}
	}
	if e.Action == "" || e.DevPath == "" {
		return Event{}, fmt.Errorf("%w: no action or path: %.80q", ErrSyntax, message)
	}
	return e, nil
}
