// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/symcache"
)

// TestModuleBehindALink has a module whose directory in sysfs is a symbolic link, as where parts of the
// host's /sys are linked into a container.
func TestModuleBehindALink(t *testing.T) {
	k := newKernel(t)
	k.writeSysfs("a_b", "\x01\x02\x03\x04", sections{".text": 0xffffffffc0200000})
	elsewhere := filepath.Join(k.root, "elsewhere")
	require.NoError(t, os.Rename(filepath.Join(k.root, "sys/module/a_b"), elsewhere))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(k.root, "sys/module/a_b")))
	k.write("proc/modules", "a_b 4096 0 - Live 0xffffffffc0200000\n")
	k.write("proc/kallsyms", core+"ffffffffc0200000 t f\t[a_b]\n")
	table, degraded := k.readTable()
	require.NoError(t, degraded)
	require.Len(t, table.Loaded(), 1)
	assert.Equal(t, "01020304", table.Loaded()[0].BuildID())
	assert.Equal(t, "a_b:f", lookup(table, 0xffffffffc0200000))
}

// TestBuiltIn has directories in sysfs for code that was built into the core kernel, but could have been
// built as modules. They have no sections.
func TestBuiltIn(t *testing.T) {
	k := newKernel(t)
	k.write("sys/module/printk/parameters/time", "Y\n")
	k.write("sys/module/kernel/uevent", "")
	k.writeSysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.write("proc/modules", "a 4096 0 - Live 0xffffffffc0200000\n")
	k.write("proc/kallsyms", core+"ffffffffc0200000 t f\t[a]\n")
	table, degraded := k.readTable()
	require.NoError(t, degraded)
	require.Len(t, table.Loaded(), 1)
	assert.Equal(t, "a", table.Loaded()[0].Name())
}

// TestEndIsFixed verifies that a module does not grow when another one behind it is unloaded.
func TestEndIsFixed(t *testing.T) {
	k := newKernel(t)
	const a, b = "a 8192 0 - Live 0xffffffffc0200000\n", "b 4096 0 - Live 0xffffffffc0200800\n"
	k.writeSysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.writeSysfs("b", "", sections{".text": 0xffffffffc0200800})
	k.write("proc/kallsyms", core+"ffffffffc0200800 t g\t[b]\nffffffffc0200000 t f\t[a]\n")
	k.write("proc/sys/kernel/osrelease", "6.1.0")
	f := k.stepper()
	defer f.source.stop()
	for _, list := range []string{b + a, a} {
		k.write("proc/modules", list)
		if list == a {
			f.conn.send(removed("b"))
		}
		f.scan()
		assert.Equal(t, "a:f", lookup(f.last.Table, 0xffffffffc02007ff))
		assert.NotEqual(t, "a:f", lookup(f.last.Table, 0xffffffffc0200800))
	}
	assert.Len(t, f.last.Table.Loaded(), 1)
}

// TestModuleThatFailsToLoad has a module that is in the list while its init function runs. The function
// fails, and the kernel sends no event. Nothing of the module is published.
func TestModuleThatFailsToLoad(t *testing.T) {
	k := newKernel(t)
	const a, failing = "a 4096 0 - Live 0xffffffffc0200000\n", "b 4096 0 - Loading 0xffffffffc0210000\n"
	k.writeSysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.write("proc/modules", a)
	k.write("proc/kallsyms", core+"ffffffffc0200000 t f\t[a]\n")
	synctest.Test(t, func(t *testing.T) {
		s, conn := k.source(), newFakeConn()
		s.state.feed.dial = func() (connection, error) { return conn, nil }
		published, stop := run(t, s)
		time.Sleep(time.Millisecond)
		k.writeSysfs("b", "", sections{".text": 0xffffffffc0210000})
		k.write("proc/modules", failing+a)
		k.write("proc/kallsyms", core+"ffffffffc0210000 t g\t[b]\nffffffffc0200000 t f\t[a]\n")
		conn.send(added("c")) // which is not in the list
		time.Sleep(10 * time.Second)
		k.write("proc/modules", a)
		time.Sleep(time.Minute)
		stop()
		assert.Equal(t, [][2]int{{1, 0}}, published.get())
		assert.Equal(t, symcache.Counts{
			Updates: [symcache.NumKinds]int64{symcache.KindLoad: 1, symcache.KindSymbols: 1},
		}, published.counts)
	})
}
