package perfring

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
)

func TestReadIsInterrupted(t *testing.T) {
	held := SymbolOptions("/sys")
	held.Window = time.Hour
	for name, opts := range map[string]Options{
		"waiting for a ring": options(), "holding records back": held,
	} {
		t.Run(name, func(t *testing.T) { testReadIsInterrupted(t, opts) })
	}
}

func testReadIsInterrupted(t *testing.T, opts Options) {
	for name, interrupt := range map[string]func(r *Reader, cancel func()) error{
		"by Close":   func(r *Reader, _ func()) error { return r.Close() },
		"by context": func(_ *Reader, cancel func()) error { cancel(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, opts)
			kerneltest.Busy(t) // that there are records keeps no error back
			if r.prompt {
				kerneltest.NeedBPF(t)
				require.NoError(t, load(t, "interrupted", 1).Close())
				r.collect()
				require.NotEmpty(t, r.pending)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			read := make(chan error)
			go func() {
				for {
					if _, err := r.Read(ctx, time.Now().Add(time.Hour)); err != nil {
						read <- err
						return
					}
				}
			}()
			time.Sleep(50 * time.Millisecond)
			require.NoError(t, interrupt(r, cancel))
			select {
			case err := <-read:
				assert.True(t, errors.Is(err, os.ErrClosed) || errors.Is(err, context.Canceled), "%v", err)
			case <-time.After(time.Minute):
				t.Fatal("Read waits on")
			}
			_, err := r.Read(ctx, time.Now().Add(time.Hour))
			assert.Error(t, err)
		})
	}
}
