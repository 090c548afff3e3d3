// SPDX-License-Identifier: Apache-2.0

// Package sender finds out where messages come from: which certainly come from this machine (see contract 2.6), and which
// host sent the others.
package sender

import (
	"context"
	"net"
	"net/http"

	"go.opentelemetry.io/collector/client"
)

// withinProcess is the key of a context whose messages are made within the process.
type withinProcess struct{}

// WithinProcess returns a context for messages that a receiver makes itself: none of their content comes from elsewhere.
func WithinProcess(ctx context.Context) context.Context {
	return context.WithValue(ctx, withinProcess{}, true)
}

// IsLocal reports whether a message certainly was made within the process, or arrived over a unix socket (contract 2.6). A
// component that queues or merges messages loses the context that it depends on.
//
// A context without the address of a client proves nothing. Receivers that fetch profiles do not set one, nor does
// confighttp for what it cannot parse as an IP address: a peer with an IPv6 zone, or a unix socket. The HTTP server says
// on which address the request arrived.
func IsLocal(ctx context.Context) bool {
	if ctx.Value(withinProcess{}) != nil {
		return true
	}
	addr := client.FromContext(ctx).Addr
	if addr == nil {
		addr, _ = ctx.Value(http.LocalAddrContextKey).(net.Addr)
	}
	_, isUnix := addr.(*net.UnixAddr)
	return isUnix
}

// Host returns the host that sent a message, without the port, which not every receiver reports. It is empty if the context
// has no address, as for messages of this collector itself.
func Host(ctx context.Context) string {
	addr := client.FromContext(ctx).Addr
	if addr == nil {
		return ""
	}
	return HostOf(addr.String())
}

// HostOf returns the host of an address as text, which is all of it if there is no port.
func HostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}
