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

// TestModuleBehindALink: the directory in sysfs is somewhere else, as where parts
// of the host's /sys are mounted into a container by links.
func TestModuleBehindALink(t *testing.T) {
	k := newKernel(t)
	k.sysfs("a_b", "\x01\x02\x03\x04", sections{".text": 0xffffffffc0200000})
	elsewhere := filepath.Join(k.root, "elsewhere")
	require.NoError(t, os.Rename(filepath.Join(k.root, "sys/module/a_b"), elsewhere))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(k.root, "sys/module/a_b")))
	k.write("proc/modules", "a_b 4096 0 - Live 0xffffffffc0200000\n")
	k.write("proc/kallsyms", core+"ffffffffc0200000 t f\t[a_b]\n")
	table, degraded := k.load()
	require.NoError(t, degraded)
	require.Len(t, table.Loaded(), 1)
	assert.Equal(t, "01020304", table.Loaded()[0].BuildID())
	assert.Equal(t, "a_b:f", lookup(table, 0xffffffffc0200000))
}

// TestBuiltIn: sysfs has directories also for parts of the core that could have
// been modules, without sections.
func TestBuiltIn(t *testing.T) {
	k := newKernel(t)
	k.write("sys/module/printk/parameters/time", "Y\n")
	k.write("sys/module/kernel/uevent", "")
	k.sysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.write("proc/modules", "a 4096 0 - Live 0xffffffffc0200000\n")
	k.write("proc/kallsyms", core+"ffffffffc0200000 t f\t[a]\n")
	table, degraded := k.load()
	require.NoError(t, degraded)
	require.Len(t, table.Loaded(), 1)
	assert.Equal(t, "a", table.Loaded()[0].Name())
}

// TestEndStays: a module does not grow to where another was.
func TestEndStays(t *testing.T) {
	k := newKernel(t)
	const a, b = "a 8192 0 - Live 0xffffffffc0200000\n", "b 4096 0 - Live 0xffffffffc0200800\n"
	k.sysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.sysfs("b", "", sections{".text": 0xffffffffc0200800})
	k.write("proc/kallsyms", core+"ffffffffc0200800 t g\t[b]\nffffffffc0200000 t f\t[a]\n")
	k.write("proc/sys/kernel/osrelease", "6.1.0")
	f := k.stepper()
	defer f.stop()
	for _, list := range []string{b + a, a} {
		k.write("proc/modules", list)
		if list == a {
			f.events.send(removed("b"))
		}
		f.scan()
		assert.Equal(t, "a:f", lookup(f.last.Table, 0xffffffffc02007ff))
		assert.NotEqual(t, "a:f", lookup(f.last.Table, 0xffffffffc0200800))
	}
	assert.Len(t, f.last.Table.Loaded(), 1)
}

// TestModuleThatFailsToLoad: it is in the list while its init function runs, which
// then fails, and there is no event. It leaves nothing behind.
func TestModuleThatFailsToLoad(t *testing.T) {
	k := newKernel(t)
	const a, failing = "a 4096 0 - Live 0xffffffffc0200000\n", "b 4096 0 - Loading 0xffffffffc0210000\n"
	k.sysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.write("proc/modules", a)
	k.write("proc/kallsyms", core+"ffffffffc0200000 t f\t[a]\n")
	synctest.Test(t, func(t *testing.T) {
		s, conn := k.source(), newFake()
		s.feed.dial = func() (events, error) { return conn, nil }
		published, stop := run(t, s)
		time.Sleep(time.Millisecond)
		k.sysfs("b", "", sections{".text": 0xffffffffc0210000})
		k.write("proc/modules", failing+a)
		k.write("proc/kallsyms", core+"ffffffffc0210000 t g\t[b]\nffffffffc0200000 t f\t[a]\n")
		conn.send(added("c")) // that is not in the list
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
