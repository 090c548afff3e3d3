// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// Build ids of the core kernel and a module of the healthy machine.
const (
	coreID   = "abcdabcdabcdabcd"
	moduleID = "1234123412341234"
)

var withBuildIDs = map[string]string{
	"sys/kernel/notes":                           "\x04\x00\x00\x00\x08\x00\x00\x00\x03\x00\x00\x00GNU\x00\xab\xcd\xab\xcd\xab\xcd\xab\xcd",
	"sys/module/xfs/notes/.note.gnu.build-id":    "\x04\x00\x00\x00\x08\x00\x00\x00\x03\x00\x00\x00GNU\x00\x12\x34\x12\x34\x12\x34\x12\x34",
	"sys/module/xfs/sections/.note.gnu.build-id": "0x0\n",
}

// packOf returns a pack, either with lines or with symbols only.
func packOf(t *testing.T, buildID, name string, lines bool) []byte {
	t.Helper()
	w := pack.NewWriter(pack.Info{BuildID: buildID, Name: name, Extent: pack.Range{End: 0x100}})
	if lines {
		w.Row(0, 0, w.File("fs/xfs.c"), 1)
		w.Row(0x100, 0, 0, 0)
	}
	content, err := w.Bytes()
	require.NoError(t, err)
	return content
}

func TestPacks(t *testing.T) {
	const release = "kernelsym pack --release 6.12.0-test -d "
	for name, tt := range map[string]struct {
		core, module []byte // nil without a pack
		mode         os.FileMode
		want         []Finding // without Lost
	}{
		"both": {
			packOf(t, coreID, "vmlinux", true), packOf(t, moduleID, "xfs", true), 0o755,
			[]Finding{{Level: OK, Found: "source lines for 2 of 2 running builds"}},
		},
		"symbols only": {
			packOf(t, coreID, "vmlinux", true), packOf(t, moduleID, "xfs", false), 0o755,
			[]Finding{{Level: Note, Found: "source lines for 1 of 2 running builds; symbols only for xfs"}},
		},
		"one": {
			packOf(t, coreID, "vmlinux", true), nil, 0o755,
			[]Finding{{Level: Warn, Found: "source lines for 1 of 2 running builds; no pack of xfs", Remedy: []string{release}}},
		},
		"none": {
			nil, nil, 0o755,
			[]Finding{{Level: Warn, Found: "source lines for 0 of 2 running builds; no pack of vmlinux, xfs", Remedy: []string{release}}},
		},
		"damaged": {
			packOf(t, coreID, "vmlinux", true), packOf(t, moduleID, "xfs", true)[:100], 0o755,
			[]Finding{
				{Level: Warn, Found: moduleID + ".kspack: damaged pack", Remedy: []string{release}},
				{Level: OK, Found: "source lines for 1 of 2 running builds"},
			},
		},
		"others write": {
			packOf(t, coreID, "vmlinux", true), nil, 0o777,
			[]Finding{
				{Level: Warn, Found: "run chmod go-w", Remedy: []string{"chmod -R go-w ", "chown -R root: "}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := machineWith(t, withBuildIDs, fake{})
			m.packs = filepath.Join(t.TempDir(), "packs")
			require.NoError(t, os.Mkdir(m.packs, 0o755))
			for id, content := range map[string][]byte{coreID: tt.core, moduleID: tt.module} {
				if content != nil {
					require.NoError(t, os.WriteFile(filepath.Join(m.packs, id+pack.Ext), content, 0o644))
				}
			}
			require.NoError(t, os.Chmod(m.packs, tt.mode))
			var got []Finding
			for _, f := range run(t.Context(), m).Findings {
				if f.Check == packsCheck {
					got = append(got, f)
				}
			}
			require.Len(t, got, len(tt.want))
			for i, want := range tt.want {
				assert.Equal(t, want.Level, got[i].Level)
				assert.Contains(t, got[i].Found, want.Found)
				assert.Equal(t, want.Level == Warn, got[i].Lost != "")
				require.GreaterOrEqual(t, len(got[i].Remedy), len(want.Remedy))
				for k, remedy := range want.Remedy {
					assert.Contains(t, got[i].Remedy[k], remedy+m.packs)
				}
			}
		})
	}
}

// TestNoDirectoryOfPacks verifies that a missing directory is a finding of its own: an empty one looks the same in a profile.
func TestNoDirectoryOfPacks(t *testing.T) {
	m := machineWith(t, withBuildIDs, fake{})
	m.packs = filepath.Join(t.TempDir(), "packs")
	f := finding(t, run(t.Context(), m), packsCheck)
	assert.Equal(t, Warn, f.Level)
	assert.Equal(t, "there is no directory "+m.packs, f.Found)
	assert.Contains(t, f.Remedy[0], "kernelsym pack --release 6.12.0-test -d "+m.packs, "which makes the directory")
}

func TestNoPacksAreWanted(t *testing.T) {
	for _, f := range run(t.Context(), machineWith(t, withBuildIDs, fake{})).Findings {
		assert.NotEqual(t, packsCheck, f.Check)
	}
}
