// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/flame"
)

// isServed reports whether a request may be answered, by the host that it names: the one of the address, this machine, or a
// number. A page elsewhere could otherwise read the profile in the user's browser, by a name of its own that leads to this
// machine (DNS rebinding).
func isServed(requested, address string) bool {
	host := hostOf(requested)
	return host == hostOf(address) || host == "localhost" || net.ParseIP(host) != nil
}

// hostOf returns the host of an address, with or without a port.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	return strings.ToLower(host)
}

// checkAddress validates --http.
func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
	}
	if err != nil {
		return fmt.Errorf("--http is %q: it takes HOST:PORT, such as localhost:8081", address)
	}
	return nil
}

// openable returns an address that a browser on this machine can open: localhost for all addresses of the machine, for which
// the kernel has [::].
func openable(listening net.Addr) string {
	if tcp, ok := listening.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}
	return listening.String()
}

// serve serves a page until it is interrupted. What write writes depends on the query.
func serve(cmd *cobra.Command, address string, write func(io.Writer, url.Values) error) error {
	ctx := cmd.Context()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is in use: choose another address with --http", address)
	}
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		if !isServed(r.Host, address) {
			http.Error(w, "The page is served at "+address+" only. To use another name, start the command with --http NAME:PORT.",
				http.StatusMisdirectedRequest)
			return
		}
		var page bytes.Buffer
		if err := write(&page, r.URL.Query()); err != nil {
			http.Error(w, "There is no page for this choice: "+err.Error()+".", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", flame.ContentPolicy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(page.Bytes()) // an error means that the browser has gone
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	stderr(cmd).Printf("Flame graph: http://%s/ (Ctrl-C ends it)\n", openable(listener.Addr()))
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
