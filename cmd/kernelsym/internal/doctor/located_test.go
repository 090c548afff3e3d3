// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/locate"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// locator is a locator with an answer that a test gives it.
type locator struct {
	image *timeline.Image
	err   error
}

func (l locator) Locate(context.Context, string) (*timeline.Image, error) { return l.image, l.err }

// TestLocating verifies the findings about a kernel that hides its symbols: what hides them, whether there is a pack, and
// whether the kernel was located.
func TestLocating(t *testing.T) {
	core, err := kallsyms.ParseCore(strings.NewReader(healthy["proc/kallsyms"]), "amd64", coreID, "")
	require.NoError(t, err)
	const boot = "make the pack of the core kernel, as root, from the image that this machine booted: kernelsym pack --boot -d "
	for name, tt := range map[string]struct {
		files    map[string]string
		record   error
		located  locator
		want     Finding // about the symbols; the report contains its Found, Lost and each Remedy
		hiddenBy string
		code     int
	}{
		"located, by the sysctl": {
			files:   map[string]string{"proc/sys/kernel/kptr_restrict": "2"},
			located: locator{image: core.AsLocated()},
			want: Finding{
				Level: Warn, Found: "1 symbol of the core kernel, located in ", Lost: "names of modules, and of BPF code",
				Remedy: []string{"sysctl -w kernel.kptr_restrict=1"},
			},
			hiddenBy: "2: the kernel hides its addresses from every process", code: 1,
		},
		"located, without the capability": {
			files:   map[string]string{"proc/self/status": withCapabilities(perfmon)},
			located: locator{image: core.AsLocated()},
			want: Finding{
				Level: Warn, Found: kallsyms.ErrLocated.Error(), Lost: "names of modules, and of BPF code", Remedy: []string{"grant CAP_SYSLOG"},
			},
			hiddenBy: "1: the kernel hides its addresses from this process, which lacks CAP_SYSLOG", code: 1,
		},
		"no pack": {
			files:   map[string]string{"proc/sys/kernel/kptr_restrict": "2"},
			located: locator{err: fmt.Errorf("the pack of %s: no pack", coreID)},
			want: Finding{
				Level: Fail, Found: "it was not located: the pack of " + coreID + ": no pack", Lost: lostNames,
				Remedy: []string{"sysctl -w kernel.kptr_restrict=1"},
			},
			hiddenBy: "2: ", code: 2,
		},
		"perf refused": {
			files:   map[string]string{"proc/self/status": withCapabilities()},
			record:  errPerf,
			located: locator{err: perfring.ErrPermission},
			want: Finding{
				Level: Fail, Found: "(every address in kallsyms is zero); it was not located: not permitted to use perf events", Lost: lostNames,
				Remedy: []string{"grant CAP_SYSLOG", "grant CAP_PERFMON", "or for all users: "},
			},
			hiddenBy: "1: the kernel hides its addresses from this process", code: 2,
		},
		"wchan says nothing": {
			files:   map[string]string{"proc/self/status": withCapabilities(syslog, perfmon), "proc/sys/kernel/kptr_restrict": "2"},
			located: locator{err: locate.ErrSilent},
			want: Finding{
				Level: Fail, Found: "it was not located: the kernel does not say where a thread waits", Lost: lostNames,
				Remedy: []string{"sysctl -w kernel.kptr_restrict=1", "grant CAP_SYS_ADMIN", "or use Linux 5.16"},
			},
			hiddenBy: "2: ", code: 2,
		},
		"the pack contradicts": {
			files:   map[string]string{"proc/sys/kernel/kptr_restrict": "2"},
			located: locator{err: locate.ErrContradiction},
			want: Finding{
				Level: Fail, Found: locate.ErrContradiction.Error(), Lost: lostNames,
				Remedy: []string{"sysctl -w kernel.kptr_restrict=1", "make the pack again"},
			},
			hiddenBy: "2: ", code: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(withBuildIDs)
			files["proc/kallsyms"] = hiddenList
			maps.Copy(files, tt.files)
			m := machineWith(t, files, fake{record: tt.record})
			m.locate, m.packs = true, t.TempDir()
			m.sources[0] = kallsyms.NewSource(m.procfs, m.sysfs, tt.located)
			r := run(t.Context(), m)
			assert.Equal(t, tt.code, r.Code(), "%+v", r.Findings)
			f := finding(t, r, "symbols: kallsyms")
			assert.Equal(t, tt.want.Level, f.Level)
			assert.Contains(t, f.Found, tt.want.Found)
			assert.Contains(t, f.Lost, tt.want.Lost)
			require.Len(t, f.Remedy, len(tt.want.Remedy), f.Remedy)
			for i, want := range tt.want.Remedy {
				assert.Contains(t, f.Remedy[i], want)
			}
			hidden := finding(t, r, pointersCheck)
			assert.Equal(t, Note, hidden.Level)
			assert.Contains(t, hidden.Found, tt.hiddenBy)
			packs := finding(t, r, packsCheck)
			assert.Contains(t, packs.Found, "no pack of vmlinux ("+coreID+")")
			assert.Contains(t, packs.Lost, "names of the core kernel with locate: true")
			assert.Equal(t, []string{boot + m.packs}, packs.Remedy)
			for _, f := range r.Findings {
				assert.NotContains(t, f.Found, "grant CAP_", "remedies know what this machine needs")
				assert.NotContains(t, strings.Join(f.Remedy, "\n"), "locate: true", "it is tried already")
			}
		})
	}
}

// TestPackOfAHiddenKernel verifies that the report names the pack of the running kernel, whose symbols cannot be read.
func TestPackOfAHiddenKernel(t *testing.T) {
	files := maps.Clone(withBuildIDs)
	files["proc/kallsyms"] = hiddenList
	m := machineWith(t, files, fake{})
	m.packs = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(m.packs, coreID+pack.Ext), packOf(t, coreID, "vmlinux", false), 0o644))
	r := run(t.Context(), m)
	assert.Contains(t, finding(t, r, packsCheck).Found, "symbols only for vmlinux ("+coreID+")")
	assert.Equal(t, Build{timeline.KernelName, coreID}, r.Details.Builds[0])
}

// TestPacksOfDoctor verifies that packs come from the directory, and that an error says which file is meant.
func TestPacksOfDoctor(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, coreID+pack.Ext), packOf(t, coreID, "vmlinux", false), 0o644))
	p, err := directory(dir).Pack(t.Context(), coreID)
	require.NoError(t, err)
	assert.Equal(t, coreID, p.Info().BuildID)
	_, err = directory(dir).Pack(t.Context(), moduleID)
	require.EqualError(t, err, "no pack")
}

// TestNoBuildIDIsNotHidden verifies that symbols which can be read are not taken for hidden if only the build id is missing.
func TestNoBuildIDIsNotHidden(t *testing.T) {
	files := maps.Clone(withBuildIDs)
	files["sys/kernel/notes"] = "-"
	m := machineWith(t, files, fake{})
	m.packs = t.TempDir()
	run(t.Context(), m)
	assert.False(t, m.state.hidden)
}
