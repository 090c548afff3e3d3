// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kernelsym/kernelsym/internal/admission/admissiontest"
)

const export = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"

// messages are messages of senders, with the answers to them.
var messages = []struct {
	name     string
	used     int64
	message  []byte
	wantHTTP int
	wantGRPC codes.Code
	retry    bool
}{
	{name: "admitted", message: admissiontest.Nested([]protowire.Number{1, 2}, admissiontest.Field(2), 1000), wantHTTP: 200, wantGRPC: codes.OK},
	{name: "too large", message: admissiontest.Nested([]protowire.Number{1, 2}, admissiontest.Field(2), 10_000), wantHTTP: 413, wantGRPC: codes.ResourceExhausted},
	{name: "no memory", used: 1_000_000, message: admissiontest.Field(1), wantHTTP: 503, wantGRPC: codes.ResourceExhausted, retry: true},
	{name: "malformed", message: []byte{1<<3 | 2}, wantHTTP: 400, wantGRPC: codes.InvalidArgument},
}

// TestHTTP verifies the answers of the handler, and that it counts refusals.
func TestHTTP(t *testing.T) {
	for _, tt := range messages {
		t.Run(tt.name, func(t *testing.T) {
			g, got := newTestGate(), []byte(nil)
			g.patience = time.Millisecond
			g.memory.Store(tt.used)
			url := startHTTP(t, g, func(body []byte, err error) {
				if assert.NoError(t, err) {
					assert.Positive(t, g.admitted.Load())
					got = body
				}
			})
			response, err := http.Post(url, "application/x-protobuf", bytes.NewReader(tt.message)) //nolint:noctx // it ends
			require.NoError(t, err)
			defer response.Body.Close()
			assert.Equal(t, tt.wantHTTP, response.StatusCode)
			assert.Equal(t, tt.retry, response.Header.Get("Retry-After") == "1")
			if tt.wantHTTP == http.StatusOK {
				assert.Equal(t, tt.message, got)
				assert.Zero(t, g.refused.Load())
			} else {
				assert.Nil(t, got)
				assert.EqualValues(t, 1, g.refused.Load())
			}
			g.assertEmpty(t)
		})
	}
}

// startHTTP starts a server that calls handle with the bodies that it can read.
func startHTTP(t *testing.T, g *testGate, handle func([]byte, error)) (url string) {
	t.Helper()
	s := httptest.NewServer(g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		handle(io.ReadAll(r.Body))
	})))
	t.Cleanup(s.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return s.URL
}

// TestStalledHTTP verifies that the server does not wait for a sender that stalls, whether it is that
// sender's turn or not.
func TestStalledHTTP(t *testing.T) {
	for name, hosts := range map[string][]string{"its turn": nil, "not its turn": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			g := newTestGate()
			g.patience = time.Millisecond
			for _, host := range hosts {
				for g.queue.turns.allows(host) {
					require.NoError(t, g.enter(t.Context(), host))
				}
			}
			url := startHTTP(t, g, func(_ []byte, err error) { assert.Error(t, err) })
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", url[len("http://"):])
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			_, err = fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n1")
			require.NoError(t, err)
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			assert.NoError(t, response.Body.Close())
			for host, had := range maps.Clone(g.queue.turns.taken) {
				for range had {
					g.leave(host)
				}
			}
			g.assertEmpty(t)
		})
	}
}

// An exporter is the service that handles messages.
type exporter struct {
	pprofileotlp.UnimplementedGRPCServer
	handle func(pprofileotlp.ExportRequest)
}

func (e *exporter) Export(_ context.Context, r pprofileotlp.ExportRequest) (pprofileotlp.ExportResponse, error) {
	e.handle(r)
	return pprofileotlp.NewExportResponse(), nil
}

// A raw is an encoded message.
type raw []byte

func (raw) Marshal(v any) ([]byte, error)   { return *v.(*raw), nil }
func (raw) Unmarshal(b []byte, v any) error { *v.(*raw) = bytes.Clone(b); return nil }
func (raw) Name() string                    { return "proto" }

// startGRPC starts a server that calls handle with messages, and returns a client.
func startGRPC(t *testing.T, g *testGate, handle func(pprofileotlp.ExportRequest)) *grpc.ClientConn {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer(g.ServerOptions()...)
	pprofileotlp.RegisterGRPCServer(s, &exporter{handle: handle})
	go func() { assert.NoError(t, s.Serve(l)) }()
	t.Cleanup(s.Stop)
	conn, err := grpc.NewClient("passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, conn.Close()) })
	return conn
}

// TestGRPC verifies the answers of the server, and that its hooks count refusals.
func TestGRPC(t *testing.T) {
	for _, tt := range messages {
		t.Run(tt.name, func(t *testing.T) {
			g, got := newTestGate(), 0
			g.memory.Store(tt.used)
			if tt.retry {
				g.patience = time.Second // in which the message arrives
			}
			conn := startGRPC(t, g, func(r pprofileotlp.ExportRequest) {
				assert.Positive(t, g.admitted.Load())
				got = r.Profiles().ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().Len()
			})
			var response raw
			message := raw(tt.message)
			err := conn.Invoke(t.Context(), export, &message, &response)
			s := status.Convert(err)
			assert.Equal(t, tt.wantGRPC, s.Code(), err)
			if tt.wantGRPC == codes.OK {
				assert.Equal(t, 1000, got)
				assert.Zero(t, g.refused.Load())
			} else {
				assert.Zero(t, got)
				assert.EqualValues(t, 1, g.refused.Load())
			}
			hasRetry := false
			for _, detail := range s.Details() {
				_, hasRetry = detail.(*errdetails.RetryInfo)
			}
			assert.Equal(t, tt.retry, hasRetry)
			g.assertEmpty(t)
		})
	}
}

// TestStalledGRPC verifies that the server does not wait for a sender that stalls.
func TestStalledGRPC(t *testing.T) {
	g := newTestGate()
	g.patience = 10 * time.Millisecond
	conn := startGRPC(t, g, func(pprofileotlp.ExportRequest) { t.Error("a message") })
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, export)
	require.NoError(t, err)
	assert.Equal(t, codes.DeadlineExceeded, status.Code(stream.RecvMsg(new(raw))))
	g.assertEmpty(t)
}

// TestNoBegin verifies that requests that the server refuses for other reasons keep no places.
func TestNoBegin(t *testing.T) {
	g := newTestGate()
	g.patience = 10 * time.Millisecond
	conn := startGRPC(t, g, func(pprofileotlp.ExportRequest) { t.Error("a message") })
	message := raw(admissiontest.Field(1))
	for range 10 {
		assert.Equal(t, codes.Unimplemented, status.Code(conn.Invoke(t.Context(), "/other/Export", &message, new(raw))))
	}
	g.assertEmpty(t)
}

// TestSecondMessage verifies that a second message in one request, which the server reads before it refuses
// the request, is not decoded, and that nothing of the first one stays admitted.
func TestSecondMessage(t *testing.T) {
	g := newTestGate()
	conn := startGRPC(t, g, func(pprofileotlp.ExportRequest) { t.Error("a message") })
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, export)
	require.NoError(t, err)
	message := raw(admissiontest.Field(1))
	for range 2 {
		require.NoError(t, stream.SendMsg(&message))
	}
	err = stream.RecvMsg(new(raw))
	assert.Equal(t, codes.Internal, status.Code(err))
	require.ErrorContains(t, err, errSecond.Error())
	g.assertEmpty(t)
}

// TestWaitingGRPC verifies that requests beyond those that a host may have wait until others end, and that a request is refused
// while too many of its host wait.
func TestWaitingGRPC(t *testing.T) {
	g, handled := newTestGate(), make(chan struct{})
	conn := startGRPC(t, g, func(pprofileotlp.ExportRequest) { handled <- struct{}{} })
	message, results := raw(admissiontest.Field(1)), make(chan error)
	for range oneHostTurns + 1 {
		go func() { results <- conn.Invoke(t.Context(), export, &message, new(raw)) }()
	}
	require.Eventually(t, func() bool { return g.turns() == oneHostTurns && g.waiting() == 1 }, time.Minute, time.Millisecond)
	others := 0
	for g.queue.reserve("127.0.0.1") {
		others++
	}
	assert.Equal(t, oneHostWaiting-1, others)
	assert.Equal(t, codes.ResourceExhausted, status.Code(conn.Invoke(t.Context(), export, &message, new(raw))))
	for range others {
		g.queue.giveUp("127.0.0.1")
	}
	for range oneHostTurns + 1 {
		<-handled
	}
	for range oneHostTurns + 1 {
		require.NoError(t, <-results)
	}
	g.assertEmpty(t)
}

// TestSameHost verifies that one sender is one host, over HTTP and over gRPC.
func TestSameHost(t *testing.T) {
	for want, addr := range map[string]net.Addr{
		"10.0.0.1":     &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1234},
		"fe80::1%eth0": &net.TCPAddr{IP: net.ParseIP("fe80::1"), Port: 1234, Zone: "eth0"},
		"@":            &net.UnixAddr{Name: "@", Net: "unix"},
	} {
		assert.Equal(t, want, hostOf(peer.NewContext(t.Context(), &peer.Peer{Addr: addr})))

		g, hosts := newTestGate(), map[string]int(nil)
		handler := g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hosts = maps.Clone(g.queue.turns.taken) }))
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://collector/", nil)
		request.RemoteAddr = addr.String()
		handler.ServeHTTP(httptest.NewRecorder(), request)
		assert.Equal(t, map[string]int{want: 1}, hosts)
	}
	assert.Empty(t, hostOf(t.Context()))
}

// TestHeaders verifies that a request is refused before it takes more than a few kilobytes of headers, which HPACK can make a
// thousand times smaller: after its first occurrence, a field takes one byte.
func TestHeaders(t *testing.T) {
	g := newTestGate()
	g.patience = 100 * time.Millisecond // a request without a message is answered when it ends
	conn := startGRPC(t, g, func(pprofileotlp.ExportRequest) { t.Error("a message") })
	sender, err := new(net.Dialer).DialContext(t.Context(), "tcp", conn.Target()[len("passthrough:///"):])
	require.NoError(t, err)
	defer func() { assert.NoError(t, sender.Close()) }()
	for fields, wantReset := range []bool{false, true} {
		block := []byte{0x83, 0x86} // POST, http
		block = appendHeader(block, []byte{0x04}, export)
		block = appendHeader(block, []byte{0x01}, "localhost")
		block = appendHeader(block, []byte{0x0f, 31 - 15}, "application/grpc")
		if fields > 0 {
			block = appendHeader(append(block, 0x40, 1, 'x'), nil, strings.Repeat("a", 120))
			block = append(block, bytes.Repeat([]byte{0x80 | 62}, 200)...)
		}
		stream := uint32(2*fields + 1)
		if fields == 0 {
			_, err = io.WriteString(sender, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
			require.NoError(t, err)
			_, err = sender.Write([]byte{0, 0, 0, settingsFrame, 0, 0, 0, 0, 0})
			require.NoError(t, err)
		}
		const endHeaders = 4
		frame := append([]byte{0, byte(len(block) >> 8), byte(len(block)), headersFrame, endHeaders}, binary.BigEndian.AppendUint32(nil, stream)...)
		_, err = sender.Write(append(frame, block...))
		require.NoError(t, err)
		assert.Equal(t, wantReset, firstAnswer(t, sender, stream) == resetFrame)
	}
	g.assertEmpty(t)
}

// Types of frames of HTTP/2.
const (
	headersFrame  = 1
	resetFrame    = 3
	settingsFrame = 4
)

// appendHeader appends the value of a header, after an encoded name.
func appendHeader(block, name []byte, value string) []byte {
	return append(append(append(block, name...), byte(len(value))), value...)
}

// firstAnswer returns the type of the first frame of a stream, of those that answer a request.
func firstAnswer(t *testing.T, r io.Reader, stream uint32) byte {
	t.Helper()
	for {
		var header [9]byte
		_, err := io.ReadFull(r, header[:])
		require.NoError(t, err)
		_, err = io.CopyN(io.Discard, r, int64(header[0])<<16|int64(header[1])<<8|int64(header[2]))
		require.NoError(t, err)
		if kind := header[3]; binary.BigEndian.Uint32(header[5:]) == stream && (kind == headersFrame || kind == resetFrame) {
			return kind
		}
	}
}

// TestManyOfOneHost verifies that no request is refused if as many as one host may have wait, as those of many senders behind one
// address can.
func TestManyOfOneHost(t *testing.T) {
	g, message, results := newTestGate(), raw(admissiontest.Field(1)), make(chan error)
	leave := g.fill(t, "127.0.0.1")
	first := startGRPC(t, g, func(pprofileotlp.ExportRequest) {})
	for range oneHostWaiting / 16 {
		conn, err := grpc.NewClient(first.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, conn.Close()) })
		for range 16 {
			go func() { results <- conn.Invoke(t.Context(), export, &message, new(raw)) }()
		}
	}
	require.Eventually(t, func() bool { return g.waiting() == oneHostWaiting }, time.Minute, time.Millisecond)
	leave()
	for range oneHostWaiting {
		require.NoError(t, <-results)
	}
	g.assertEmpty(t)
}

// TestStallingHost verifies that messages of another host are handled while a host has as many turns and places as it can, and
// sends no messages.
func TestStallingHost(t *testing.T) {
	g := newTestGate()
	g.patience = time.Hour
	conn := startGRPC(t, g, func(pprofileotlp.ExportRequest) {})
	local := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	refused := make(chan error, 1)
	for range 17 {
		stalling, err := grpc.NewClient(conn.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})),
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				return local.DialContext(ctx, "tcp", address)
			}))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, stalling.Close()) })
		for range 16 {
			stream, err := stalling.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, export)
			require.NoError(t, err)
			go func() {
				select {
				case refused <- stream.RecvMsg(new(raw)):
				default:
				}
			}()
		}
	}
	assert.Equal(t, codes.ResourceExhausted, status.Code(<-refused))
	assert.Equal(t, oneHostTurns, g.turns())
	assert.LessOrEqual(t, g.waiting(), oneHostWaiting)
	for range 10 {
		message := raw(admissiontest.Field(1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		require.NoError(t, conn.Invoke(ctx, export, &message, new(raw)))
		cancel()
	}
}
