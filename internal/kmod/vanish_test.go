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

// TestSysfsFileThatVanishes has a file that is in a directory but cannot be read. If the module is no
// longer loaded by then, it is left out, and that is no error.
func TestSysfsFileThatVanishes(t *testing.T) {
	const a, b = "a 4096 0 - Live 0xffffffffc0200000\n", "b 4096 0 - Live 0xffffffffc0210000\n"
	const unloading = "a 4096 0 - Unloading 0xffffffffc0200000\n"
	for name, tt := range map[string]struct {
		after string // the list of modules
		lost  string // the file
	}{
		"a section, and the module is loaded": {a + b, "sections/.text.unlikely"},
		"a section, and it is being removed":  {unloading + b, "sections/.text.unlikely"},
		"a section, and it is unloaded":       {b, "sections/.text.unlikely"},
		"the notes, and it is unloaded":       {b, "notes"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel(t)
			k.write("proc/modules", a+b)
			k.writeSysfs("a", "\x01\x02\x03\x04",
				sections{".text": 0xffffffffc0200000, ".text.unlikely": 0xffffffffc0200800})
			k.writeSysfs("b", "\x05\x06\x07\x08", sections{".text": 0xffffffffc0210000})
			s := k.source()
			list, err := s.roots.readList()
			require.NoError(t, err)
			lost := filepath.Join(k.root, "sys/module/a", tt.lost)
			require.NoError(t, os.RemoveAll(lost))
			if tt.lost != "notes" {
				require.NoError(t, os.Symlink("nowhere", lost)) // is in the directory
			}
			k.write("proc/modules", tt.after)
			f := newStepper(t, s)
			scan := f.reader.beginScan()
			_, ok := f.reader.applyScan(scan, list, f.reader.readLoads(scan, list))
			require.True(t, ok)
			table := s.state.tracker.table(now())
			if tt.after == a+b {
				require.ErrorIs(t, s.state.tracker.degraded(), os.ErrNotExist)
				require.ErrorContains(t, s.state.tracker.degraded(), "module frames get no build id and no file ID")
				assert.Len(t, table.Loaded(), 2)
				return
			}
			require.NoError(t, s.state.tracker.degraded())
			require.Len(t, table.Loaded(), 1)
			assert.Equal(t, "b", table.Loaded()[0].Name())
		})
	}
}

// TestSysfsIsMountedLater has sysfs mounted only after the start. A module that was read without
// it counts as another load, because its frames have no build id.
func TestSysfsIsMountedLater(t *testing.T) {
	k := newKernel(t)
	k.write("proc/kallsyms", core+symbol(textAddr, "in_a", "a"))
	k.write("proc/modules", aLine)
	f := k.stepper()
	defer f.source.stop()
	f.scan()
	require.ErrorContains(t, f.last.Degraded, "check that sysfs is mounted there")
	f.scan()
	assert.Zero(t, f.last.Table.Unloaded(), "sysfs is read again, and nothing has changed")
	before := passTime()
	k.showA()
	f.scan()
	require.NoError(t, f.last.Degraded)
	require.Len(t, f.last.Table.Loaded(), 1)
	assert.Equal(t, "aaaaaaaa", f.last.Table.Loaded()[0].BuildID())
	assert.Equal(t, "a:in_a", lookup(f.last.Table, textAddr))
	assert.Empty(t, f.at(before), "it is not certain")
}

// TestAddressesAreHiddenLater has the kernel hide its addresses while the source runs. The source does
// not mistake the modules for modules without code.
func TestAddressesAreHiddenLater(t *testing.T) {
	k := newKernel(t)
	k.showA()
	f := k.stepper()
	defer f.source.stop()
	f.scan()
	before := f.last.Table.Loaded()[0].Lifetime
	k.write("proc/modules", "a 4096 0 - Live 0x0000000000000000\n")
	k.writeSysfs("a", "", sections{".text": 0})
	k.write("proc/kallsyms", "0000000000000000 T _text\n0000000000000000 t f\t[a]\n")
	_, err := f.reader.scan(f.publish, true)
	require.ErrorIs(t, err, kallsyms.ErrRestricted)
	assert.Equal(t, "a:in_a", lookup(f.last.Table, textAddr), "the last table stays")
	k.showA()
	f.source.state.tracker.applyLoss() // as when Run is called again
	f.scan()
	assert.Equal(t, before, f.last.Table.Loaded()[0].Lifetime, "it was not loaded anew")
	assert.Zero(t, f.last.Table.Unloaded())
}
