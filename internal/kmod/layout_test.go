// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

func TestEndRuleOf(t *testing.T) {
	for _, tt := range []struct {
		arch, release string
		want          endRule
	}{
		{"amd64", "6.4.0\n", endsWithPage},
		{"amd64", "6.12.48+deb13-cloud-amd64\n", endsWithPage},
		{"amd64", "7.0\n", endsWithPage},
		{"amd64", "6.3.13\n", endsAtNext},
		{"amd64", "5.10.0-30-amd64\n", endsAtNext},
		{"amd64", "", endsWithPage}, // an unknown release
		{"amd64", "next", endsWithPage},
		{"arm64", "6.12.0\n", endsAtNext},
		{"arm64", "", endsAtNext},
		{"386", "6.12.0\n", endsAtNext},
	} {
		assert.Equal(t, tt.want, endRuleOf(tt.arch, tt.release), "%s %q", tt.arch, tt.release)
	}
}

// TestContract_3_2_CodeWithoutSymbols has a section of code without symbols between two sections with
// symbols, as before Linux 5.17.
func TestContract_3_2_CodeWithoutSymbols(t *testing.T) {
	k := newKernel(t)
	k.write("proc/sys/kernel/osrelease", "5.10.0\n")
	k.write("proc/modules", aLine)
	k.writeSysfs("a", "\xaa\xaa\xaa\xaa",
		sections{".text": textAddr, ".fixup": textAddr + 0x800, ".exit.text": textAddr + 0x900})
	k.write("proc/kallsyms", core+symbol(textAddr, "f", "a")+symbol(textAddr+0x40, "last", "a")+
		symbol(textAddr+0x900, "cleanup_module", "a"))
	table, err := k.readTable()
	require.NoError(t, err)
	assert.Equal(t, "a:last", lookup(table, textAddr+0x7ff))
	assert.Empty(t, lookup(table, textAddr+0x800))
	assert.Equal(t, "a:cleanup_module", lookup(table, textAddr+0x900))
}

// TestReleaseOfThisKernel has a procfs without the release. The release of the running kernel counts
// instead.
func TestReleaseOfThisKernel(t *testing.T) {
	k := newKernel(t)
	require.NoError(t, os.RemoveAll(filepath.Join(k.root, "proc/sys")))
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Skipf("%v: where modules end on this kernel is not tested", err)
	}
	assert.Equal(t, endRuleOf("amd64", string(release)), k.source().roots.endRule())
}

// TestContract_3_2_WhereModulesEnd has one module, "m", with two sections of code, and another module
// behind it that is known at the same time.
func TestContract_3_2_WhereModulesEnd(t *testing.T) {
	const text, exit = uint64(0xffffffffc0200000), uint64(0xffffffffc0203000)
	for name, tt := range map[string]struct {
		arch, release string
		data, init    uint64 // sections of m
		other         uint64
		size          uint64
		end           uint64
	}{
		"with the page": {
			arch: "amd64", release: "6.12", other: text + 0x9000,
			size: 0x100000, end: text + 0x5000,
		},
		"with the page, data is nearer": {
			arch: "amd64", release: "6.12", data: exit + 0x1200, other: text + 0x9000,
			size: 0x100000, end: text + 0x5000,
		},
		"with the page, it is too long": {
			arch: "amd64", release: "6.12", other: text + 0x9000,
			size: 0x4800, end: text + 0x4800,
		},
		"with the page, another module": {
			arch: "amd64", release: "6.12", other: exit + 0x1800,
			size: 0x100000, end: exit + 0x1800,
		},
		"init text is not covered": {
			arch: "amd64", release: "6.12", init: text + 0x4100, other: text + 0x9000,
			size: 0x100000, end: text + 0x4100,
		},
		"at coresize": {
			arch: "amd64", release: "6.1", other: text + 0x9000,
			size: 0x8000, end: text + 0x8000,
		},
		"at its data": {
			arch: "amd64", release: "6.1", data: text + 0x6000, other: text + 0x9000,
			size: 0x8000, end: text + 0x6000,
		},
		"at another module": {
			arch: "arm64", release: "6.12", other: text + 0x7000,
			size: 0x100000, end: text + 0x7000,
		},
		"at its data, arm64": {
			arch: "arm64", release: "6.12", data: text + 0x6000, other: text + 0x7000,
			size: 0x100000, end: text + 0x6000,
		},
		"data below its text": {
			arch: "arm64", release: "6.12", data: text + 0x2800, other: text + 0x7000,
			size: 0x100000, end: text + 0x7000,
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel(t)
			k.write("proc/sys/kernel/osrelease", tt.release+"\n")
			k.writeSysfs("m", "\xaa\xaa\xaa\xaa",
				sections{".text": text, ".exit.text": exit, ".data": tt.data, ".init.text": tt.init})
			k.writeSysfs("other", "\xbb\xbb\xbb\xbb", sections{".text": tt.other})
			k.write("proc/modules", line("m", tt.size, text)+line("other", 0x1000, tt.other))
			k.write("proc/kallsyms", core+
				symbol(text, "first", "m")+symbol(text+0x1080, "last_of_text", "m")+
				symbol(exit, "leave", "m")+symbol(exit+0x1040, "last", "m")+
				symbol(text+0x4200, "initial", "m")+symbol(tt.other, "f", "other"))
			s := k.source()
			s.roots.arch = tt.arch
			f := newStepper(t, s)
			scan := f.reader.beginScan()
			list, err := f.source.roots.readList()
			require.NoError(t, err)
			_, ok := f.reader.applyScan(scan, list, f.reader.readLoads(scan, list))
			require.True(t, ok)
			early := s.state.tracker.imageOf(s.state.tracker.loads["m"])
			f.scan()
			m := f.last.Table.Loaded()[0]
			if name == "with the page" { // this symbol lies in init text in other cases
				assert.Equal(t, "initial", lastSymbol(m))
			}
			assert.Equal(t, tt.end, m.End)
			assert.LessOrEqual(t, early.End, m.End, "not longer before the symbols were read")
			assert.Equal(t, exit, m.Lookup(text+0x1080).End(), "symbols end at sections of code")
			assert.Equal(t, text, m.Start)
			again := f.last.Table
			f.scan()
			assert.Equal(t, again.Loaded()[0].End, f.last.Table.Loaded()[0].End)
		})
	}
}

// lastSymbol returns the name of an image's last symbol.
func lastSymbol(m *timeline.Image) string { return m.Text.Name(m.Text.Symbol(m.Len() - 1)).System }

// TestLongerBeforeInitialization has a list with a larger size, which includes the memory that only
// serves to initialize the module.
func TestLongerBeforeInitialization(t *testing.T) {
	k := newKernel(t)
	k.write("proc/sys/kernel/osrelease", "6.1\n")
	k.writeSysfs("a", "\xaa\xaa\xaa\xaa", sections{".text": textAddr})
	k.write("sys/module/a/coresize", "4096\n")
	k.write("proc/modules", line("a", 8192, textAddr))
	k.write("proc/kallsyms", core+symbol(textAddr, "f", "a"))
	table, degraded := k.readTable()
	require.NoError(t, degraded)
	assert.Equal(t, uint64(textAddr+4096), table.Loaded()[0].End)
}

// TestLaterModuleCutsAnEarlierOne verifies that a module ends where a later one begins, even if it seemed
// longer. This is a last line of defence.
func TestLaterModuleCutsAnEarlierOne(t *testing.T) {
	k := newKernel(t)
	k.writeSysfs("a", "\xaa\xaa\xaa\xaa", sections{".text": textAddr})
	k.writeSysfs("b", "\xbb\xbb\xbb\xbb", sections{".text": textAddr + 0x800})
	k.write("proc/modules", line("a", 0x10000, textAddr))
	k.write("proc/kallsyms", core+symbol(textAddr, "f", "a"))
	f := k.stepper()
	defer f.source.stop()
	f.scan()
	assert.Equal(t, "a:f", lookup(f.last.Table, textAddr+0x900))
	k.write("proc/modules", line("b", 0x1000, textAddr+0x800)+line("a", 0x10000, textAddr))
	k.write("proc/kallsyms", core+symbol(textAddr+0x800, "g", "b")+symbol(textAddr, "f", "a"))
	f.conn.send(added("b"))
	f.scan()
	assert.Equal(t, "a:f", lookup(f.last.Table, textAddr+0x7ff))
	assert.Equal(t, "b:g", lookup(f.last.Table, textAddr+0x900))
	assert.Equal(t, uint64(textAddr+0x800), f.byBuild("aaaaaaaa").End)
	f.conn.send(removed("a"), removed("b"))
	k.write("proc/modules", "")
	f.scan()
	assert.Empty(t, f.last.Table.Loaded())
	assert.Equal(t, 2, f.last.Table.Unloaded())
	assert.False(t, f.byBuild("aaaaaaaa").IsLoaded())
}
