// SPDX-License-Identifier: Apache-2.0

package deploytest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/kernelsym/kernelsym/internal/admission/admissiontest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

var everyKind = flag.Bool("every-kind", false, "send hostile messages of every kind, to the agent of the manifests as well")

// TestHostileSenders verifies that messages of the worst shapes, sent 64 times at once, leave the agent alive inside the memory
// limit that it is shipped with, and that messages of other senders arrive. Where another host stalls, they arrive without a
// second attempt.
func TestHostileSenders(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not root: processes get no memory limit")
	}
	unit := readUnit(t, "otelcol-kernelsym.service")
	_, unitLimit, _ := strings.Cut(unit["Environment"], "GOMEMLIMIT=")
	m := render(t, "base")
	pod := m.pods()["kernelsym"].Spec
	c := collectorOf(t, pod)
	text, more := m.config(t, pod, c)
	require.Empty(t, more)
	config := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	memoryMax, err := strconv.ParseInt(strings.TrimSuffix(unit["MemoryMax"], "M"), 10, 64)
	require.NoError(t, err)
	for _, tt := range []struct {
		name, config string
		env          []string
		limit        int64
	}{
		{"unit", repository + "/deploy/examples/agent.yaml", []string{"GOMEMLIMIT=" + unitLimit}, memoryMax << 20},
		{"base", config, m.environment(t, c.Env), c.Resources.Limits.Memory().Value()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name != "unit" && !*everyKind {
				t.Skip("its limits are those of the unit: make test has sent to that")
			}
			attack(t, startLimited(t, tt.config, tt.env, tt.limit))
		})
	}
}

// A target is a collector with a memory limit, and its backend.
type target struct {
	*otelcol.Process
	t                  *testing.T
	grpc, http, health string       // addresses
	honest             atomic.Int64 // messages of other senders that the backend has received
}

const (
	honestName   = "honest"
	exportMethod = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
)

func startLimited(t *testing.T, config string, env []string, limit int64) *target {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &target{t: t}
	backend := otelcol.Serve(l, func(pd pprofile.Profiles) {
		if strings := pd.Dictionary().StringTable(); strings.Len() > 1 && strings.At(1) == honestName {
			c.honest.Add(1)
		}
	})
	t.Cleanup(backend.Stop)
	for _, address := range []*string{&c.grpc, &c.http, &c.health} {
		*address, err = otelcol.FreeAddress(t.Context())
		require.NoError(t, err)
	}
	args := []string{kerneltest.Built(t, kerneltest.Collector), otelcol.FeatureGates, "--config=" + config}
	for _, override := range []string{
		"receivers::otlp::protocols::grpc::endpoint: " + c.grpc,
		"receivers::otlp::protocols::http::endpoint: " + c.http,
		"extensions::health_check::http::endpoint: " + c.health,
		"extensions::zpages::endpoint: localhost:0",
		"service::telemetry::metrics::level: none",
	} {
		args = append(args, inline+override)
	}
	// The shell is replaced by the collector, which then is all that the cgroup has.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "/bin/sh",
		slices.Concat([]string{"-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(limitedCgroup(t, limit), "cgroup.procs")}, args)...)
	cmd.Env = slices.Concat(env, []string{"OTLP_ENDPOINT=" + l.Addr().String()})
	c.Process, err = otelcol.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, c.Stop())
		if t.Failed() {
			log := c.Log()
			t.Logf("end of the collector's log:\n%s", log[max(0, len(log)-10_000):])
		}
	})
	c.isAlive()
	return c
}

// isAlive waits until the collector says that it is well.
func (c *target) isAlive() {
	c.t.Helper()
	require.NoError(c.t, c.Eventually(c.t.Context(), "the collector is well", func() error {
		_, err := otelcol.ReadStatus(c.t.Context(), http.DefaultClient, c.health)
		return err
	}))
}

// limitedCgroup makes a cgroup with a memory limit.
func limitedCgroup(t *testing.T, limit int64) (dir string) {
	t.Helper()
	root, file := "/sys/fs/cgroup", "memory.max"
	if _, err := os.Stat(root + "/memory"); err == nil {
		root, file = root+"/memory", "memory.limit_in_bytes"
	} else {
		require.NoError(t, os.WriteFile(root+"/cgroup.subtree_control", []byte("+memory"), 0))
	}
	dir, err := os.MkdirTemp(root, "kernelsym") //nolint:usetesting // a cgroup
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.Remove(dir)) })
	require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(strconv.FormatInt(limit, 10)), 0))
	return dir
}

// attack sends the worst of each kind 64 times at once, and other messages at the same time until they have arrived.
func attack(t *testing.T, c *target) {
	senders := []func([]byte) error{
		func(m []byte) error { return c.overHTTP(m, false) },
		func(m []byte) error { return c.overHTTP(m, true) },
		func(m []byte) error { return c.overGRPC(m) },
		func(m []byte) error { return c.overGRPC(m, grpc.UseCompressor("gzip")) },
	}
	kinds := []string{"profiles"}
	if *everyKind {
		kinds = append(kinds, "scopes", "locations", "resources", "samples", "mappings", "attributes", "strings")
	}
	honest := honestMessage(t)
	for _, shape := range admissiontest.Shapes {
		if !slices.Contains(kinds, shape.Name) {
			continue
		}
		var wg sync.WaitGroup
		for i, send := range senders {
			for _, size := range []int{400_000, 4_000_000} { // of most kinds, the first is admitted
				message := shape.New(size, true)
				for range 8 {
					wg.Go(func() { _ = send(message) })
				}
			}
			wg.Go(func() {
				assert.NoError(t, c.Eventually(t.Context(), fmt.Sprintf("%s: other sender %d", shape.Name, i), func() error { return send(honest) }))
			})
		}
		wg.Wait()
		c.isAlive()
	}
	defer c.stall()()
	for i, send := range senders {
		require.NoError(t, send(honest), "while another host stalls: sender %d", i)
	}
	want := int64((len(kinds) + 1) * len(senders))
	assert.NoError(t, c.Eventually(t.Context(), "the backend has all messages of other senders", func() error {
		if got := c.honest.Load(); got < want {
			return fmt.Errorf("%d of %d", got, want)
		}
		return nil
	}))
}

// honestMessage returns a message of 1 MB as profilers send it.
func honestMessage(t *testing.T) []byte {
	t.Helper()
	pd := pprofile.NewProfiles()
	d, p := pd.Dictionary(), pd.ResourceProfiles().AppendEmpty().ScopeProfiles().AppendEmpty().Profiles().AppendEmpty()
	d.StringTable().Append("", honestName)
	d.MappingTable().AppendEmpty()
	d.FunctionTable().AppendEmpty()
	for i := range 20_000 {
		location := d.LocationTable().AppendEmpty()
		location.SetAddress(1<<62 + uint64(i))
		location.Lines().AppendEmpty()
		stack := d.StackTable().AppendEmpty()
		stack.LocationIndices().Append(int32(i), int32(i/2))
		sample := p.Samples().AppendEmpty()
		sample.SetStackIndex(int32(i))
		sample.Values().Append(1)
	}
	message, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(pd)
	require.NoError(t, err)
	require.InDelta(t, 1_000_000, len(message), 500_000)
	return message
}

// overHTTP sends a message over a connection of its own.
func (c *target) overHTTP(message []byte, compressed bool) error {
	var body bytes.Buffer
	if compressed {
		w := gzip.NewWriter(&body)
		_, err := w.Write(message)
		if err := errors.Join(err, w.Close()); err != nil {
			return err
		}
	} else {
		body.Write(message)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), otelcol.Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.http+"/v1development/profiles", &body)
	if err != nil {
		return err
	}
	request.Close = true
	request.Header.Set("Content-Type", "application/x-protobuf")
	if compressed {
		request.Header.Set("Content-Encoding", "gzip")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("%s: %s", response.Status, text)
	}
	return nil
}

// overGRPC sends a message over a connection of its own.
func (c *target) overGRPC(message []byte, opts ...grpc.CallOption) error {
	conn, err := grpc.NewClient("passthrough:///"+c.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(c.t.Context(), otelcol.Patience)
	defer cancel()
	return conn.Invoke(ctx, exportMethod, &message, new([]byte), append(opts, grpc.ForceCodec(encoded{}))...)
}

// stall begins requests from another address, without messages, until one is refused because no more of this host may wait.
func (c *target) stall() (end func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	refused := make(chan error, 1)
	var conns []*grpc.ClientConn
	for range 17 {
		conn, err := grpc.NewClient("passthrough:///"+c.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodec(encoded{})), grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext(ctx, "tcp", address)
			}))
		require.NoError(c.t, err)
		conns = append(conns, conn)
		for range 16 {
			stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, exportMethod)
			require.NoError(c.t, err)
			go func() {
				err := stream.RecvMsg(new([]byte))
				select {
				case refused <- err:
				default:
				}
			}()
		}
	}
	require.ErrorContains(c.t, <-refused, "no memory for this message now")
	return func() {
		cancel()
		for _, conn := range conns {
			assert.NoError(c.t, conn.Close())
		}
	}
}

// encoded is the codec of messages that are encoded already.
type encoded struct{}

func (encoded) Marshal(v any) ([]byte, error)   { return *v.(*[]byte), nil }
func (encoded) Unmarshal(b []byte, v any) error { *v.(*[]byte) = bytes.Clone(b); return nil }
func (encoded) Name() string                    { return "proto" }
