package deploytest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // as exporters compress

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// backendAddress is where the container sends to, in its own network.
const backendAddress = "127.0.0.1:14317"

// A backend takes what the container sends.
type backend struct {
	pprofileotlp.UnimplementedGRPCServer
	received chan pprofile.Profiles
}

func (b *backend) Export(_ context.Context, request pprofileotlp.ExportRequest) (pprofileotlp.ExportResponse, error) {
	pd := pprofile.NewProfiles()
	request.Profiles().CopyTo(pd)
	b.received <- pd
	return pprofileotlp.NewExportResponse(), nil
}

// A link sends profiles through a container.
type link struct {
	*container
	backend *backend
	client  pprofileotlp.GRPCClient
}

func connect(c *container) *link {
	c.t.Helper()
	l := &link{container: c, backend: &backend{received: make(chan pprofile.Profiles, 100)}}
	server := grpc.NewServer()
	pprofileotlp.RegisterGRPCServer(server, l.backend)
	var listener net.Listener
	c.eventually("the container has a network", func() error {
		return c.inside(func() (err error) {
			listener, err = new(net.ListenConfig).Listen(c.t.Context(), "tcp", backendAddress)
			return err
		})
	})
	go func() { _ = server.Serve(listener) }()
	c.t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///127.0.0.1:4317", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(c.dial))
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = conn.Close() })
	l.client = pprofileotlp.NewGRPCClient(conn)
	return l
}

// pass sends a leaf for each address through the container, and returns the frames
// that come out.
func (l *link) pass(addresses []uint64) (frames []rewritetest.Frame) {
	l.t.Helper()
	l.eventually("a message is taken", func() error {
		m := rewritetest.NewMessage().Profile(nil, "")
		for _, addr := range addresses {
			m.Sample(rewritetest.Frame{Address: addr, Type: "kernel"})
		}
		_, err := l.client.Export(l.t.Context(), pprofileotlp.NewExportRequestFromProfiles(m.Profiles))
		return err
	})
	l.eventually("the message comes out", func() error {
		select {
		case pd := <-l.backend.received:
			node, ok := pd.ResourceProfiles().At(0).Resource().Attributes().Get("k8s.node.name")
			require.True(l.t, ok)
			require.Equal(l.t, "some-node", node.Str())
			for _, s := range rewritetest.Samples(pd) {
				frames = append(frames, s.Stack[0])
			}
			return nil
		default:
			return errors.New("it has not yet")
		}
	})
	require.Len(l.t, frames, len(addresses))
	return frames
}

var sourceUp = regexp.MustCompile(`(?m)^otelcol_processor_kernelsym_source_up\{.*source="(\w+)".*\} (\d)$`)

// metrics returns what the container tells Prometheus.
func (l *link) metrics() string {
	l.t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, address string) (net.Conn, error) { return l.dial(ctx, address) },
	}}
	request, err := http.NewRequestWithContext(l.t.Context(), http.MethodGet, "http://127.0.0.1:8888/metrics", nil)
	require.NoError(l.t, err)
	response, err := client.Do(request)
	require.NoError(l.t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(l.t, err)
	return string(text)
}

// sources returns the metric source_up.
func (l *link) sources() map[string]string {
	l.t.Helper()
	up := make(map[string]string)
	for _, match := range sourceUp.FindAllStringSubmatch(l.metrics(), -1) {
		up[match[1]] = match[2]
	}
	return up
}
