// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/kernelsym/kernelsym/internal/sender"
)

// ServerOptions returns the options of a server whose requests are admitted.
func (g *Gate) ServerOptions() []grpc.ServerOption {
	s := &server{gate: g, codec: encoding.GetCodecV2("proto")}
	return []grpc.ServerOption{
		grpc.InTapHandle(s.tap),
		grpc.StatsHandler(s),
		grpc.ForceServerCodecV2(codec{s}),
		grpc.ChainUnaryInterceptor(s.intercept),
		// A connection without a fixed window can have much more unread data, and one without a limit many goroutines. Headers are
		// compressed: without a limit, those of a request can take 16 MiB.
		grpc.StaticStreamWindowSize(64 << 10),
		grpc.MaxConcurrentStreams(16),
		grpc.MaxHeaderListSize(16 << 10),
	}
}

// A server has the hooks of a gRPC server.
//
//	headers        tap        reserves a place or, if too many wait, refuses the request, and limits its time
//	  │            Begin      waits until the message may be received
//	decompressed   Unmarshal  waits until the message may be decoded, or leaves it empty
//	  │            InPayload  connects the request with its message
//	  │            intercept  refuses the request if its message was left empty
//	handled        End        ends the request
//
// Begin waits even when the client has gone, because grpc-go may still decompress and decode its message.
type server struct {
	gate     *Gate
	codec    encoding.CodecV2
	messages sync.Map // *message by the pointer into which it is decoded, from Unmarshal to End
}

// A message is the result of its admission.
type message struct {
	cost int64 // 0 unless it was admitted
	err  error
}

// A call is a request. One goroutine calls its hooks after the tap.
type call struct {
	host    string
	place   *time.Timer // gives up the place, because for some requests Begin never comes, such as those for unknown methods
	payload any         // into which the message was decoded
	message *message    // nil until then
}

type callKey struct{}

var errSecond = errors.New("a request has one message")

// tap is called with the headers of a request. It must not wait.
func (s *server) tap(ctx context.Context, _ *tap.Info) (context.Context, error) {
	c := &call{host: hostOf(ctx)}
	if !s.gate.queue.reserve(c.host) {
		return ctx, s.gate.refuse(ErrBusy)
	}
	c.place = time.AfterFunc(s.gate.patience, func() { s.gate.queue.giveUp(c.host) })
	ctx, cancel := context.WithTimeout(ctx, 3*s.gate.patience) // as long as an HTTP request can take before it is handled
	context.AfterFunc(ctx, cancel)
	return context.WithValue(ctx, callKey{}, c), nil
}

// hostOf returns the host that sent a request.
func hostOf(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return ""
	}
	return sender.HostOf(p.Addr.String())
}

// TagRPC implements stats.Handler.
func (s *server) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (s *server) HandleRPC(ctx context.Context, event stats.RPCStats) {
	c := ctx.Value(callKey{}).(*call)
	switch event := event.(type) {
	case *stats.Begin:
		if !c.place.Stop() {
			s.gate.queue.reserveAnyway(c.host)
		}
		s.gate.waitToEnter(c.host)
	case *stats.InPayload:
		if m, ok := s.messages.Load(event.Payload); ok {
			c.payload, c.message = event.Payload, m.(*message)
		}
	case *stats.End:
		if c.message != nil {
			s.messages.Delete(c.payload)
			s.gate.release(c.message.cost)
		}
		s.gate.leave(c.host)
	}
}

// TagConn implements stats.Handler.
func (s *server) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (s *server) HandleConn(context.Context, stats.ConnStats) {}

// intercept is called between InPayload and the handler.
func (s *server) intercept(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if c := ctx.Value(callKey{}).(*call); c.message != nil && c.message.err != nil {
		return nil, s.gate.refuse(c.message.err)
	}
	return next(ctx, request)
}

// refuse counts a refusal and returns its status. OTLP has clients try again only if that has a RetryInfo.
func (g *Gate) refuse(err error) error {
	g.refused(err)
	switch {
	case errors.Is(err, ErrBusy):
		retry := &errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter)}
		if s, err := status.New(codes.ResourceExhausted, err.Error()).WithDetails(retry); err == nil {
			return s.Err()
		}
	case errors.Is(err, errMalformed):
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return status.Error(codes.ResourceExhausted, err.Error())
}

// A codec decodes messages that the gate admits.
type codec struct{ server *server }

// Unmarshal implements encoding.CodecV2. The server would report an error as codes.Internal.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m := new(message)
	if _, ok := c.server.messages.LoadOrStore(v, m); ok {
		return errSecond // it would wait for memory that its first message has
	}
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	n, err := cost(buffer.ReadOnlyData())
	if err == nil {
		err = c.server.gate.admit(n)
	}
	if err != nil {
		m.err = err
		return nil
	}
	m.cost = n
	if err := c.server.codec.Unmarshal(mem.BufferSlice{buffer}, v); err != nil {
		c.server.messages.Delete(v)
		c.server.gate.release(n)
		return err
	}
	return nil
}

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) { return c.server.codec.Marshal(v) }

// Name implements encoding.CodecV2.
func (c codec) Name() string { return c.server.codec.Name() }
