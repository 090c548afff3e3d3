// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
)

// TestSysfsFileThatVanishes has a file that is listed but cannot be read. If the
// module is gone by then, it is left out and nothing is wrong.
func TestSysfsFileThatVanishes(t *testing.T) {
	const a, b = "a 4096 0 - Live 0xffffffffc0200000\n", "b 4096 0 - Live 0xffffffffc0210000\n"
	for name, tt := range map[string]struct {
		after string // the list of modules
		lost  string // file
	}{
		"a section, and the module is there": {a + b, "sections/.text.unlikely"},
		"a section, and it is being removed": {"a 4096 0 - Unloading 0xffffffffc0200000\n" + b, "sections/.text.unlikely"},
		"a section, and it is gone":          {b, "sections/.text.unlikely"},
		"the notes, and it is gone":          {b, "notes"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel(t)
			k.write("proc/modules", a+b)
			k.sysfs("a", "\x01\x02\x03\x04", sections{".text": 0xffffffffc0200000, ".text.unlikely": 0xffffffffc0200800})
			k.sysfs("b", "\x05\x06\x07\x08", sections{".text": 0xffffffffc0210000})
			s := k.source()
			list, err := s.list()
			require.NoError(t, err)
			lost := filepath.Join(k.root, "sys/module/a", tt.lost)
			require.NoError(t, os.RemoveAll(lost))
			if tt.lost != "notes" {
				require.NoError(t, os.Symlink("nowhere", lost)) // is listed
			}
			k.write("proc/modules", tt.after)
			f := &stepper{reader: newReader(s), t: t}
			scan := f.begin()
			_, ok := f.apply(scan, list, f.find(scan, list))
			require.True(t, ok)
			table := s.record.table(now())
			if tt.after == a+b {
				require.ErrorIs(t, s.record.degraded(), os.ErrNotExist)
				require.ErrorContains(t, s.record.degraded(), "module frames get no build id and no file ID")
				assert.Len(t, table.Loaded(), 2)
				return
			}
			require.NoError(t, s.record.degraded())
			require.Len(t, table.Loaded(), 1)
			assert.Equal(t, "b", table.Loaded()[0].Name())
		})
	}
}

// TestSysfsThatComesLater has sysfs mounted only after the start. What was read without it is
// another load: its frames have no build id.
func TestSysfsThatComesLater(t *testing.T) {
	k := newKernel(t)
	k.write("proc/kallsyms", core+symbol(place, "in_a", "a"))
	k.write("proc/modules", aLine)
	f := k.stepper()
	defer f.stop()
	f.scan()
	require.ErrorContains(t, f.last.Degraded, "check that sysfs is mounted there")
	f.scan()
	assert.Zero(t, f.last.Table.Unloaded(), "it is tried again, and nothing has changed")
	before := pause()
	k.showA()
	f.scan()
	require.NoError(t, f.last.Degraded)
	require.Len(t, f.last.Table.Loaded(), 1)
	assert.Equal(t, "aaaaaaaa", f.last.Table.Loaded()[0].BuildID())
	assert.Equal(t, "a:in_a", lookup(f.last.Table, place))
	assert.Empty(t, f.at(before), "it is not certain")
}

// TestAddressesAreHiddenLater has the kernel hide its addresses while the source
// runs: it does not take that for modules without code.
func TestAddressesAreHiddenLater(t *testing.T) {
	k := newKernel(t)
	k.showA()
	f := k.stepper()
	defer f.stop()
	f.scan()
	before := f.last.Table.Loaded()[0].Lifetime
	k.write("proc/modules", "a 4096 0 - Live 0x0000000000000000\n")
	k.sysfs("a", "", sections{".text": 0})
	k.write("proc/kallsyms", "0000000000000000 T _text\n0000000000000000 t f\t[a]\n")
	_, err := f.reader.scan(f.publish)
	require.ErrorIs(t, err, kallsyms.ErrRestricted)
	assert.Equal(t, "a:in_a", lookup(f.last.Table, place), "the last table stays")
	k.showA()
	f.record.lost() // as when Run begins again
	f.scan()
	assert.Equal(t, before, f.last.Table.Loaded()[0].Lifetime, "it did not go and come")
	assert.Zero(t, f.last.Table.Unloaded())
}
