// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestListChangesWhileSymbolsAreRead has a module unloaded while the symbols are read. These symbols are
// not published.
func TestListChangesWhileSymbolsAreRead(t *testing.T) {
	k := newKernel(t)
	// There is one pipe for each reading of the symbols.
	kallsyms := filepath.Join(k.root, "proc/kallsyms")
	newPipe := func() {
		require.NoError(t, unix.Mkfifo(kallsyms+"~", 0o600))
		require.NoError(t, os.Rename(kallsyms+"~", kallsyms))
	}
	newPipe()
	const a, b = "a 4096 0 - Live 0xffffffffc0200000\n", "b 4096 0 - Live 0xffffffffc0210000\n"
	k.write("proc/modules", a)
	k.writeSysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.writeSysfs("b", "", sections{".text": 0xffffffffc0210000})
	s, conn := k.source(), newFakeConn()
	s.state.feed.dial = func() (connection, error) { return conn, nil }
	published, stop := run(t, s)
	symbols := map[string]string{
		a: "ffffffffc0200000 t f\t[a]\n", b + a: "ffffffffc0210000 t g\t[b]\nffffffffc0200000 t f\t[a]\n",
	}
	giveSymbols := func(list, after string, events ...any) {
		f, err := os.OpenFile(kallsyms, os.O_WRONLY, 0) // waits for the reader
		require.NoError(t, err)
		newPipe()
		k.write("proc/modules", after)
		conn.send(events...)
		_, err = f.WriteString(core + symbols[list])
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	giveSymbols(a, a)
	waitForUpdates := func(n int) {
		require.Eventually(t, func() bool { return len(published.get()) == n }, time.Minute, time.Millisecond)
	}
	waitForUpdates(1)
	k.write("proc/modules", b+a)
	conn.send(added("b"))
	giveSymbols(b+a, a, removed("b")) // b is unloaded before its symbols have been read
	waitForUpdates(3)
	stop()
	assert.Equal(t, [][2]int{{1, 0}, {1, 1}, {1, 0}}, published.get(), "b never had symbols")
}

// TestBuildDoesNotWaitForSymbols has a module loaded while the symbols of another are read, which takes
// long. Its build and its addresses are published before the reading ends; then the symbols of both.
func TestBuildDoesNotWaitForSymbols(t *testing.T) {
	k := newKernel(t)
	const a, b = "a 4096 0 - Live 0xffffffffc0200000\n", "b 4096 0 - Live 0xffffffffc0210000\n"
	k.writeSysfs("a", "\xaa\xaa\xaa\xaa", sections{".text": 0xffffffffc0200000})
	k.writeSysfs("b", "\xbb\xbb\xbb\xbb", sections{".text": 0xffffffffc0210000})
	s, conn := k.source(), newFakeConn()
	s.state.feed.dial = func() (connection, error) { return conn, nil }
	published, stop := run(t, s)
	isPublished := func(n [2]int) func() bool {
		return func() bool { return slices.Contains(published.get(), n) }
	}
	require.Eventually(t, isPublished([2]int{0, 0}), time.Minute, time.Millisecond)

	kallsyms := filepath.Join(k.root, "proc/kallsyms")
	require.NoError(t, unix.Mkfifo(kallsyms+"~", 0o600))
	require.NoError(t, os.Rename(kallsyms+"~", kallsyms))
	k.write("proc/modules", a)
	conn.send(added("a"))
	f, err := os.OpenFile(kallsyms, os.O_WRONLY, 0) // waits for the reader
	require.NoError(t, err)
	k.write("proc/kallsyms", core+"ffffffffc0210000 t g\t[b]\nffffffffc0200000 t f\t[a]\n")
	k.write("proc/modules", b+a)
	conn.send(added("b"))
	for chunks := 0; chunks < 10_000 && !isPublished([2]int{0, 2})(); chunks++ {
		_, _ = f.WriteString(core) // fails if the reader has stopped
		time.Sleep(time.Millisecond)
	}
	assert.True(t, isPublished([2]int{0, 2})(), "while symbols are read: %v", published.get())
	_, err = f.WriteString(core)
	require.ErrorIs(t, err, unix.EPIPE)
	require.NoError(t, f.Close())
	require.Eventually(t, isPublished([2]int{2, 0}), time.Minute, time.Millisecond)
	stop()
	assert.Equal(t, [][2]int{{0, 0}, {0, 1}, {0, 2}, {2, 0}}, published.get())
}

// TestLinesThatAreLeftOut unloads x, which the kernel lists first, while the symbols are read, so the
// kernel leaves out a line of y. x is loaded again before the list is read again. The symbols are not in
// the order of their addresses: without y1, y2 would end where y3 begins.
func TestLinesThatAreLeftOut(t *testing.T) {
	const x, y = 0xffffffffc0210000, 0xffffffffc0200000
	x1, x2 := symbol(x, "x1", "x"), symbol(x+0x10, "x2", "x")
	y1, y2, y3 := symbol(y+0x10, "y1", "y"), symbol(y, "y2", "y"), symbol(y+0x20, "y3", "y")
	for name, tt := range map[string]struct {
		state  string // of x
		conn   *fakeConn
		events []any
	}{
		"it is loaded again":     {"Live", newFakeConn(), []any{removed("x"), added("x")}},
		"its start fails, twice": {"Loading", newFakeConn(), nil},
		"there are no events":    {"Live", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel(t)
			k.writeSysfs("x", "\xbb\xbb\xbb\xbb", sections{".text": x})
			k.writeSysfs("y", "\xaa\xaa\xaa\xaa", sections{".text": y})
			k.write("proc/modules", "x 4096 0 - "+tt.state+" 0xffffffffc0210000\n"+line("y", 4096, y))
			kallsyms := filepath.Join(k.root, "proc/kallsyms")
			require.NoError(t, os.Remove(kallsyms))
			require.NoError(t, unix.Mkfifo(kallsyms, 0o600))
			done := make(chan struct{})
			go func() {
				defer close(done)
				f, err := os.OpenFile(kallsyms, os.O_WRONLY, 0) // waits for the reader
				if !assert.NoError(t, err) {
					return
				}
				k.write("proc/kallsyms", core+x1+x2+y1+y2+y3)
				if tt.conn != nil {
					tt.conn.send(tt.events...)
				}
				_, err = f.WriteString(core + x1 + y2 + y3)
				assert.NoError(t, err)
				assert.NoError(t, f.Close())
			}()
			f := k.stepperWith(tt.conn)
			assert.False(t, f.scanOnce())
			<-done
			f.scan()
			assert.Equal(t, "y:y2", lookup(f.last.Table, y))
			assert.Equal(t, "y:y1", lookup(f.last.Table, y+0x10))
		})
	}
}
