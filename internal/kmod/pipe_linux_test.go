// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestListThatChangesMeanwhile has the kernel load a module while the symbols
// are read: what was read then is not published.
func TestListThatChangesMeanwhile(t *testing.T) {
	k := newKernel(t)
	// A pipe for each time that the symbols are read.
	kallsyms := filepath.Join(k.root, "proc/kallsyms")
	newPipe := func() {
		require.NoError(t, unix.Mkfifo(kallsyms+"~", 0o600))
		require.NoError(t, os.Rename(kallsyms+"~", kallsyms))
	}
	newPipe()
	const a, b = "a 4096 0 - Live 0xffffffffc0200000\n", "b 4096 0 - Live 0xffffffffc0210000\n"
	k.write("proc/modules", a)
	k.sysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.sysfs("b", "", sections{".text": 0xffffffffc0210000})
	s, conn := k.source(), newFake()
	s.feed.dial = func() (events, error) { return conn, nil }
	published, stop := run(t, s)
	symbols := map[string]string{
		a: "ffffffffc0200000 t f\t[a]\n", b + a: "ffffffffc0210000 t g\t[b]\nffffffffc0200000 t f\t[a]\n",
	}
	give := func(list, after string, events ...any) {
		f, err := os.OpenFile(kallsyms, os.O_WRONLY, 0) // waits for the reader
		require.NoError(t, err)
		newPipe()
		k.write("proc/modules", after)
		conn.send(events...)
		_, err = f.WriteString(core + symbols[list])
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	give(a, a)
	wait := func(n int) {
		require.Eventually(t, func() bool { return len(published.get()) == n }, time.Minute, time.Millisecond)
	}
	wait(1)
	k.write("proc/modules", b+a)
	conn.send(added("b"))
	give(b+a, a, removed("b")) // b is gone when its symbols have been read
	wait(3)
	stop()
	assert.Equal(t, [][2]int{{1, 0}, {1, 1}, {1, 0}}, published.get(), "b never had symbols")
}
