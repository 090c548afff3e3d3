// SPDX-License-Identifier: Apache-2.0

// Package kernelload keeps the kernel busy with file reads, pipes and a socket on the loopback
// interface, so that there is something to sample.
package kernelload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
)

// Run runs n loads of each kind until ctx is done. It returns when all of them have ended, with the
// errors of the loads that failed.
func Run(ctx context.Context, n int) error {
	kinds := []struct {
		name string
		run  func(context.Context) error
	}{{"file reads", readFiles}, {"pipes", usePipe}, {"sockets", useSocket}}
	errs := make([]error, n*len(kinds))
	var wait sync.WaitGroup
	for i := range errs {
		wait.Go(func() {
			kind := kinds[i%len(kinds)]
			if err := kind.run(ctx); err != nil && ctx.Err() == nil {
				errs[i] = fmt.Errorf("%s: %w", kind.name, err)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// readFiles reads files of a directory that every machine has, over and over.
func readFiles(ctx context.Context) error {
	for ctx.Err() == nil {
		entries, err := os.ReadDir("/etc")
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if entry.Type().IsRegular() && ctx.Err() == nil {
				_, _ = os.ReadFile("/etc/" + entry.Name()) // some are not readable
			}
		}
	}
	return nil
}

func usePipe(ctx context.Context) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	return pump(ctx, r, w)
}

func useSocket(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	// Dialing takes no time, and it is not an error of the load if a deadline passes during it.
	client, err := new(net.Dialer).DialContext(context.WithoutCancel(ctx), "tcp", listener.Addr().String())
	if err != nil {
		return err
	}
	server, err := listener.Accept()
	if err != nil {
		return errors.Join(err, client.Close())
	}
	return pump(ctx, server, client)
}

// pump moves bytes from w to r until ctx is done, and closes both.
func pump(ctx context.Context, r io.ReadCloser, w io.WriteCloser) error {
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		_, _ = r.Close(), w.Close()
	})
	defer func() {
		if !stop() {
			<-closed
		}
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, onlyReader{r}) // ends with w
	}()
	buf := make([]byte, 1<<14)
	var err error
	for ctx.Err() == nil && err == nil {
		_, err = w.Write(buf)
	}
	closeErr := errors.Join(w.Close(), r.Close())
	<-done
	if err == nil {
		err = closeErr
	}
	return err
}

// onlyReader hides the other methods of a reader. With them, io.Copy would have the kernel move the
// bytes by itself.
type onlyReader struct{ io.Reader }
