// SPDX-License-Identifier: Apache-2.0

package otelcol

import (
	"context"
	"net"

	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // as exporters compress
)

// A Backend receives profiles over OTLP/gRPC.
type Backend struct {
	pprofileotlp.UnimplementedGRPCServer
	server  *grpc.Server
	receive func(pprofile.Profiles)
}

// Serve calls receive with each message that arrives over l, from several goroutines. receive owns
// the message. Stop closes l.
func Serve(l net.Listener, receive func(pprofile.Profiles)) *Backend {
	b := &Backend{server: grpc.NewServer(), receive: receive}
	pprofileotlp.RegisterGRPCServer(b.server, b)
	go func() { _ = b.server.Serve(l) }()
	return b
}

// Export implements pprofileotlp.GRPCServer.
func (b *Backend) Export(_ context.Context, request pprofileotlp.ExportRequest) (pprofileotlp.ExportResponse, error) {
	b.receive(request.Profiles())
	return pprofileotlp.NewExportResponse(), nil
}

// Stop ends all connections.
func (b *Backend) Stop() { b.server.Stop() }

// A Client sends profiles over OTLP/gRPC. It is safe for concurrent use.
type Client struct {
	conn   *grpc.ClientConn
	client pprofileotlp.GRPCClient
}

// NewClient returns a client for a server that listens, or will listen, on an address.
func NewClient(address string, opts ...grpc.DialOption) (*Client, error) {
	conn, err := grpc.NewClient("passthrough:///"+address,
		append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		return nil, err
	}
	return &Client{conn, pprofileotlp.NewGRPCClient(conn)}, nil
}

// Send sends a message and leaves it as it is.
func (c *Client) Send(ctx context.Context, pd pprofile.Profiles) error {
	_, err := c.client.Export(ctx, pprofileotlp.NewExportRequestFromProfiles(pd))
	return err
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }
