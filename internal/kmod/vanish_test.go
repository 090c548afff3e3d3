package kmod

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// TestSysfsFileThatVanishes has a file that is listed but cannot be read. If the
// module is gone by then, it is left out and nothing is wrong.
func TestSysfsFileThatVanishes(t *testing.T) {
	const a, b = "a 4096 0 - Live 0xffffffffc0200000\n", "b 4096 0 - Live 0xffffffffc0210000\n"
	for name, tt := range map[string]struct {
		after string // the list of modules
		lost  string // file
	}{
		"a section, and the module is there": {a + b, "sections/.data"},
		"a section, and it is being removed": {"a 4096 0 - Unloading 0xffffffffc0200000\n" + b, "sections/.data"},
		"a section, and it is gone":          {b, "sections/.data"},
		"the notes, and it is gone":          {b, "notes"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel(t)
			k.write("proc/modules", a+b)
			k.sysfs("a", "\x01\x02\x03\x04", sections{".text": 0xffffffffc0200000, ".data": 0xffffffffc0300000})
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
			known := known{source: s}
			known.update(list)
			if tt.after == a+b {
				require.ErrorIs(t, known.degraded(), os.ErrNotExist)
				require.ErrorContains(t, known.degraded(), "module frames get no build id and no file ID")
				assert.Len(t, known.table().Modules(), 2)
				return
			}
			require.NoError(t, known.degraded())
			require.Len(t, known.table().Modules(), 1)
			assert.Equal(t, "b", known.table().Modules()[0].Name)
		})
	}
}

// TestAddressesAreHiddenLater has the kernel hide its addresses while the source
// runs: it does not take that for modules without code.
func TestAddressesAreHiddenLater(t *testing.T) {
	k := newKernel(t)
	k.write("proc/modules", "a 4096 0 - Live 0xffffffffc0200000\n")
	k.sysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.write("proc/kallsyms", core+"ffffffffc0200000 t f\t[a]\n")
	known := known{source: k.source()}
	var table *symtab.Table
	changed := func() { table = known.table() }
	_, err := known.refresh(t.Context(), changed)
	require.NoError(t, err)
	k.write("proc/modules", "a 4096 0 - Live 0x0000000000000000\n")
	k.sysfs("a", "", sections{".text": 0})
	k.write("proc/kallsyms", "0000000000000000 T _text\n0000000000000000 t f\t[a]\n")
	_, err = known.refresh(t.Context(), changed)
	require.ErrorIs(t, err, kallsyms.ErrRestricted)
	assert.Equal(t, "a:f", lookup(table, 0xffffffffc0200000), "the last table stays")
	k.write("proc/modules", "a 4096 0 - Live 0xffffffffc0200000\n")
	k.sysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.write("proc/kallsyms", core+"ffffffffc0200000 t f\t[a]\n")
	_, err = known.refresh(t.Context(), changed)
	require.NoError(t, err)
	assert.Equal(t, symtab.Always, known.table().Modules()[0].Valid, "it did not go and come")
	assert.Zero(t, known.table().History())
}
