// SPDX-License-Identifier: Apache-2.0

package kernelsymprocessor

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/attribute"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// searchBase searches for the base of the kernel as a sender that reads the metrics can: 9 messages halve the 512 places at
// which x86-64 can load a kernel, 2 MiB apart. It also returns how many frames of each message got a name.
func searchBase(t *testing.T, table *timeline.Table, from net.Addr, opts rewrite.Options) (base uint64, named []int64) {
	t.Helper()
	telemetry := componenttest.NewTelemetry()
	defer func() { require.NoError(t, telemetry.Shutdown(context.Background())) }()
	s := make(source)
	shared, err := NewShared(component.MustNewIDWithName("kernelsym", "test"), telemetry.NewTelemetrySettings(), opts, s.acquire)
	require.NoError(t, err)
	p := shared.NewProcessor()
	require.NoError(t, p.Start(atOnce(), newHost()))
	defer func() { require.NoError(t, p.Shutdown(context.Background())) }()
	for range 2 { // when the second is accepted, the first is in the snapshot
		s <- published{table: table}
	}

	resolved := with(attribute.String("outcome", "resolved"), attribute.String("origin", "kernel"))
	const first, apart = 0xffffffff80000000, 2 << 20
	low, high := uint64(0), uint64(512)
	before := int64(0)
	for high-low > 1 {
		m, middle := rewritetest.NewMessage().Profile(nil, "scope"), (low+high)/2
		for place := low; place < middle; place++ {
			m.Sample(rewritetest.Frame{Address: first + place*apart + 0x10, Type: "kernel"})
		}
		_, err := p.ProcessProfiles(client.NewContext(t.Context(), client.Info{Addr: from}), m.Profiles)
		require.NoError(t, err)
		after := frames(t, telemetry)[resolved]
		named = append(named, after-before)
		if after > before {
			high = middle
		} else {
			low = middle
		}
		before = after
	}
	return first + low*apart, named
}

// TestContract_2_6_NineMessagesTellNothing verifies that a sender on the network that reads the metrics finds the base of
// the kernel with 9 messages, unless absolute addresses are looked up for local senders only, as they are while the kernel is
// located (contract 10.5).
func TestContract_2_6_NineMessagesTellNothing(t *testing.T) {
	network, unix := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, &net.UnixAddr{Name: "@", Net: "unix"}
	fromLocal := rewrite.Options{AbsoluteFromLocal: true}
	known, located := kernel(t, "f"), timeline.NewTable(core(t, "f", "ab").AsLocated())
	for _, tt := range []struct {
		name  string
		table *timeline.Table
		from  net.Addr
		opts  rewrite.Options
		finds bool
	}{
		{"any, from the network", known, network, rewrite.Options{}, true},
		{"local, from the network", known, network, fromLocal, false},
		{"local, over a unix socket", known, unix, fromLocal, true},
		{"any, from the network, located", located, network, rewrite.Options{}, false},
		{"any, over a unix socket, located", located, unix, rewrite.Options{}, true},
	} {
		base, named := searchBase(t, tt.table, tt.from, tt.opts)
		require.Len(t, named, 9, tt.name)
		if tt.finds {
			assert.Equal(t, uint64(text), base, tt.name)
		} else {
			assert.Equal(t, make([]int64, 9), named, tt.name)
		}
	}
}
