// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

func TestWaitIsInterrupted(t *testing.T) {
	symbols := SymbolOptions("/sys")
	symbols.Delay = time.Hour
	for name, opts := range map[string]Options{
		"waiting for a ring": options(), "waiting for more records": symbols,
	} {
		t.Run(name, func(t *testing.T) { testWaitIsInterrupted(t, opts) })
	}
}

func testWaitIsInterrupted(t *testing.T, opts Options) {
	for name, interrupt := range map[string]func(r *Reader, cancel func()) error{
		"by Close":   func(r *Reader, _ func()) error { return r.Close() },
		"by context": func(_ *Reader, cancel func()) error { cancel(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, opts)
			kerneltest.Busy(t) // records must not hold back an error
			if opts.Delay > 0 {
				kerneltest.NeedBPF(t)
				require.NoError(t, load(t, "interrupted", 1).Close())
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error)
			go func() {
				for {
					if err := r.Wait(ctx, time.Now().Add(time.Hour)); err != nil {
						ended <- err
						return
					}
				}
			}()
			time.Sleep(50 * time.Millisecond)
			require.NoError(t, interrupt(r, cancel))
			select {
			case err := <-ended:
				assert.True(t, errors.Is(err, os.ErrClosed) || errors.Is(err, context.Canceled), "%v", err)
			case <-time.After(time.Minute):
				t.Fatal("Wait waits on")
			}
			assert.Error(t, r.Wait(ctx, time.Now().Add(time.Hour)))
		})
	}
}
