// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// usersOf returns a message with kernel frames of these builds.
func usersOf(buildIDs ...string) pprofile.Profiles {
	m := rewritetest.NewMessage()
	m.Profile(nil, "")
	for _, id := range buildIDs {
		m.Sample(frame{Type: "kernel", Address: 0x1000, Mapping: &mapping{File: "vmlinux", BuildID: id}})
	}
	return m.Profiles
}

// TestHostsTakeTurns has a gateway fetch packs while a host makes up 1,000 builds, each in 30 messages. The build that
// another host uses once is asked for among the next few.
func TestHostsTakeTurns(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.Built(t, kerneltest.Collector)
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.URL.Path[1:])
		mu.Unlock()
		http.NotFound(w, r)
	}))
	defer server.Close()
	endpoint := freeAddress(t)
	c := startCollector(t, `
receivers: {otlp: {protocols: {http: {endpoint: "`+endpoint+`"}}}}
processors: {kernelsym: {local: false, debug_info: {url: "`+server.URL+`/{build_id}"}}}
exporters: {debug: }
service: {pipelines: {profiles: {receivers: [otlp], processors: [kernelsym], exporters: [debug]}}}
`)
	made := make([]string, 1000)
	for i := range made {
		made[i] = fileID(strconv.Itoa(i))
	}
	other := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	hostile, honest := overHTTP(endpoint), overHTTPBy(other.DialContext, endpoint)
	for range 30 {
		require.NoError(t, hostile(t, usersOf(made...)))
	}
	mu.Lock()
	before := len(asked)
	mu.Unlock()
	build := fileID("used")
	require.NoError(t, honest(t, usersOf(build)))
	c.eventually("the build in use is asked for", func() error {
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(asked, build) {
			return errors.New("not yet")
		}
		return nil
	})
	assert.Less(t, slices.Index(asked, build)-before, 10)
}
