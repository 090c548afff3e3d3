// SPDX-License-Identifier: Apache-2.0

package deploytest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

// backendAddress is the address to which the container sends, in its own network.
const backendAddress = "127.0.0.1:14317"

// A link sends profiles through a container.
type link struct {
	*container
	received chan pprofile.Profiles // what the container sends
	client   *otelcol.Client
}

func connect(c *container) *link {
	c.t.Helper()
	l := &link{container: c, received: make(chan pprofile.Profiles, 100)}
	var listener net.Listener
	c.eventually("the container has a network", func() error {
		return c.inside(func() (err error) {
			listener, err = new(net.ListenConfig).Listen(c.t.Context(), "tcp", backendAddress)
			return err
		})
	})
	c.t.Cleanup(otelcol.Serve(listener, func(pd pprofile.Profiles) { l.received <- pd }).Stop)
	client, err := otelcol.NewClient("127.0.0.1:4317", grpc.WithContextDialer(c.dial))
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = client.Close() })
	l.client = client
	return l
}

// pass sends a sample for each address through the container, with a leaf at that address, taken
// just now. It returns the frames that come out.
func (l *link) pass(addresses []uint64) (frames []rewritetest.Frame) {
	l.t.Helper()
	l.eventually("a message is taken", func() error {
		m := rewritetest.NewMessage().Profile(nil, "")
		for _, addr := range addresses {
			m.Sample(rewritetest.Frame{Address: addr, Type: "kernel"})
			m.LastSample().TimestampsUnixNano().Append(uint64(time.Now().UnixNano()))
		}
		return l.client.Send(l.t.Context(), m.Profiles)
	})
	l.eventually("the message comes out", func() error {
		select {
		case pd := <-l.received:
			require.NoError(l.t, rewritetest.CheckSent(pd))
			node, ok := pd.ResourceProfiles().At(0).Resource().Attributes().Get("k8s.node.name")
			require.True(l.t, ok)
			require.Equal(l.t, "some-node", node.Str())
			for _, s := range rewritetest.Samples(pd) {
				frames = append(frames, s.Stack[0])
			}
			return nil
		default:
			return errors.New("it has not arrived yet")
		}
	})
	require.Len(l.t, frames, len(addresses))
	return frames
}

var sourceUp = regexp.MustCompile(`(?m)^otelcol_processor_kernelsym_source_up\{.*source="(\w+)".*\} (\d)$`)

// httpClient returns one that connects to the container.
func (c *container) httpClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, address string) (net.Conn, error) { return c.dial(ctx, address) },
	}}
}

// get returns a page of the container.
func (c *container) get(port int, path string) string {
	c.t.Helper()
	url := fmt.Sprintf("http://127.0.0.1:%d%s", port, path)
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, url, nil)
	require.NoError(c.t, err)
	response, err := c.httpClient().Do(request)
	require.NoError(c.t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(c.t, err)
	require.Equal(c.t, http.StatusOK, response.StatusCode, "%s: %s", url, text)
	return string(text)
}

// metrics returns the metrics that the container exposes to Prometheus.
func (c *container) metrics() string {
	c.t.Helper()
	return c.get(8888, "/metrics")
}

// checkHealth does what the kubelet's probes do, and waits until the processor has a status. A
// source that cannot be read while the kernel is busy is read again.
func (c *container) checkHealth(m *manifest, status, why string) {
	c.t.Helper()
	spec := collectorOf(c.t, m.pods()["kernelsym"].Spec)
	for _, probe := range []*corev1.Probe{spec.LivenessProbe, spec.ReadinessProbe} {
		i := slices.IndexFunc(spec.Ports, func(p corev1.ContainerPort) bool { return p.Name == probe.HTTPGet.Port.StrVal })
		require.GreaterOrEqual(c.t, i, 0, "a port of that name")
		c.get(int(spec.Ports[i].ContainerPort), probe.HTTPGet.Path)
	}
	c.eventually("the status is "+status, func() error {
		all, err := otelcol.ReadStatus(c.t.Context(), c.httpClient(), "127.0.0.1:13133")
		if err != nil {
			return err
		}
		if got := all.Of("pipeline:profiles", "processor:kernelsym"); got.Status != status || !strings.Contains(got.Error, why) {
			return fmt.Errorf("it is %+v", got)
		}
		return nil
	})
}

// sources returns the values of the metric source_up by source.
func (l *link) sources() map[string]string {
	l.t.Helper()
	up := make(map[string]string)
	for _, match := range sourceUp.FindAllStringSubmatch(l.metrics(), -1) {
		up[match[1]] = match[2]
	}
	return up
}
