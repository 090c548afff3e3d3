// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A kernel is a fixture tree: the files in which a kernel shows its modules.
type kernel struct {
	t    *testing.T
	root string
}

func newKernel(t *testing.T) kernel {
	k := kernel{t, t.TempDir()}
	k.write("proc/modules", "")
	k.write("proc/kallsyms", core)
	k.write("proc/sys/kernel/osrelease", "6.12.0\n")
	require.NoError(t, os.MkdirAll(filepath.Join(k.root, "sys/module"), 0o755))
	return k
}

const core = "ffffffff81000000 T _text\nffffffff81000000 T f\nffffffff81001000 T _etext\n"

// write writes a file of the tree.
func (k kernel) write(name, text string) {
	k.t.Helper()
	name = filepath.Join(k.root, name)
	require.NoError(k.t, os.MkdirAll(filepath.Dir(name), 0o755))
	// The rename makes the content change at once, as the kernel's files do.
	require.NoError(k.t, os.WriteFile(name+"~", []byte(text), 0o600))
	require.NoError(k.t, os.Rename(name+"~", name))
}

// sections are the addresses of a module's sections.
type sections map[string]uint64

// writeSysfs writes a module's directory in sysfs.
func (k kernel) writeSysfs(name, buildID string, at sections) {
	dir := filepath.Join("sys/module", name)
	for section, addr := range at {
		k.write(filepath.Join(dir, "sections", section), fmt.Sprintf("0x%016x\n", addr))
	}
	if buildID != "" {
		k.write(filepath.Join(dir, "notes/.note.gnu.build-id"),
			"\x04\x00\x00\x00\x04\x00\x00\x00\x03\x00\x00\x00GNU\x00"+buildID)
	}
}

func (k kernel) source() *Source {
	s := NewSource(filepath.Join(k.root, "proc"), filepath.Join(k.root, "sys"), time.Millisecond,
		timeline.Limits{TTL: time.Hour, MaxEntries: 100})
	s.roots.arch = "amd64"
	s.state.feed.dial = func() (connection, error) { return newFakeConn(), nil }
	return s
}

// readTable returns the table after one complete scan, and why it is degraded.
func (k kernel) readTable() (*timeline.Table, error) {
	k.t.Helper()
	f := k.stepper()
	defer f.source.stop()
	f.scan()
	return f.last.Table, f.last.Degraded
}

// lookup returns MODULE:FUNCTION at an address, empty if there is none.
func lookup(t *timeline.Table, addr uint64) string {
	hit, _ := timeline.NewSnapshot(t).At(addr, timeline.Present)
	if !hit.Symbol.Exists() {
		return ""
	}
	return hit.Image.Name() + ":" + hit.Name().System
}

func TestModule(t *testing.T) {
	k := newKernel(t)
	k.write("proc/modules", "nf_tables 12288 2 nft_compat,nft_chain_nat, Live 0xffffffffc0200000\n")
	k.writeSysfs("nf_tables", "\xde\xad\xbe\xef",
		sections{".text": 0xffffffffc0200000, ".text.unlikely": 0xffffffffc0200800, ".data": 0xffffffffc0300000,
			".init.text": 0xffffffffc0100000, ".rodata": 0xffffffffc0201000, ".noinstr.text": 0})
	k.write("proc/kallsyms", core+
		"ffffffffc0200100 t second\t[nf_tables]\n"+
		"ffffffffc0200000 t first\t[nf_tables]\n"+
		"ffffffffc0100000 t init_module\t[nf_tables]\n"+
		"ffffffffc0300000 d counters\t[nf_tables]\n"+
		"ffffffffc0200800 t second.cold\t[nf_tables]\n"+
		"ffffffffc0201000 t ftrace_trampoline\t[__builtin__ftrace]\n"+
		"ffffffffc0200900 t bpf_prog_0123456789abcdef_f\t[bpf]\n")
	table, degraded := k.readTable()
	require.NoError(t, degraded)
	require.Len(t, table.Loaded(), 1)
	m := table.Loaded()[0]
	assert.Equal(t, "nf_tables", m.Name())
	assert.Equal(t, timeline.OriginModule, m.Origin)
	assert.Equal(t, "deadbeef", m.BuildID())
	assert.Equal(t, buildid.FileID("deadbeef"), m.Text.FileID)
	assert.Equal(t, uint64(0xffffffffc0200000), m.Base())
	for addr, want := range map[uint64]string{
		0xffffffffc01fffff: "",
		0xffffffffc0200000: "nf_tables:first",
		0xffffffffc02000ff: "nf_tables:first",
		0xffffffffc0200100: "nf_tables:second",
		0xffffffffc0200900: "nf_tables:second.cold",
		0xffffffffc0200fff: "nf_tables:second.cold", // up to the end of the page
		0xffffffffc0201000: "",
		0xffffffffc0100000: "", // init text
		0xffffffffc0300000: "",
	} {
		assert.Equal(t, want, lookup(table, addr), "%#x", addr)
	}
}

func TestModuleEndsAtTheNext(t *testing.T) {
	k := newKernel(t)
	k.write("proc/sys/kernel/osrelease", "6.1.0-1-amd64\n")
	k.write("proc/modules", "a 1048576 0 - Live 0xffffffffc0200000\nb 4096 0 - Live 0xffffffffc0200800\n")
	k.writeSysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.writeSysfs("b", "", sections{".text": 0xffffffffc0200800})
	k.write("proc/kallsyms", core+"ffffffffc0200800 t g\t[b]\nffffffffc0200000 t f\t[a]\n")
	table, degraded := k.readTable()
	require.NoError(t, degraded)
	assert.Equal(t, "a:f", lookup(table, 0xffffffffc02007ff))
	assert.Equal(t, "b:g", lookup(table, 0xffffffffc0200800))
	assert.Equal(t, "b:g", lookup(table, 0xffffffffc02017ff))
	assert.Empty(t, lookup(table, 0xffffffffc0201800))
	assert.Equal(t, uint64(0xffffffffc0200800), table.Loaded()[0].End)
}

func TestTextBelowDotText(t *testing.T) {
	// Before Linux 6.4 other code sections could lie below .text.
	k := newKernel(t)
	k.write("proc/modules", "a 8192 0 - Live 0xffffffffc0200000\n")
	k.writeSysfs("a", "", sections{".text": 0xffffffffc0200400, ".noinstr.text": 0xffffffffc0200000})
	k.write("proc/kallsyms", core+"ffffffffc0200000 t f\t[a]\nffffffffc0200400 t g\t[a]\n")
	table, _ := k.readTable()
	m := table.Loaded()[0]
	assert.Equal(t, uint64(0xffffffffc0200400), m.Base())
	assert.Equal(t, uint64(0xffffffffc0200000), m.Start)
	assert.Equal(t, "a:f", lookup(table, 0xffffffffc0200000))
}

// TestRelocationsAreNotCode verifies that the relocations of a livepatch do not count as code, although
// their sections have names that end in .text.
func TestRelocationsAreNotCode(t *testing.T) {
	k := newKernel(t)
	k.write("proc/modules", "patch 8192 0 - Live 0xffffffffc0300000\nother 4096 0 - Live 0xffffffffc0200000\n")
	k.writeSysfs("other", "", sections{".text": 0xffffffffc0200000})
	k.writeSysfs("patch", "", sections{".text": 0xffffffffc0300000, ".klp.rela.vmlinux..text": 0xffffffffc0100000})
	k.write("proc/kallsyms", core+"ffffffffc0300000 t fixed\t[patch]\nffffffffc0200000 t f\t[other]\n")
	table, degraded := k.readTable()
	require.NoError(t, degraded)
	assert.Equal(t, "patch:fixed", lookup(table, 0xffffffffc0300000))
	assert.Equal(t, "other:f", lookup(table, 0xffffffffc0200000))
}

// TestContract_8_WithoutSectionsThereAreNoOffsets verifies that a module without readable sections has no
// build id. A build id promises offsets from .text, and on arm64 .text does not begin at the address in
// /proc/modules.
func TestContract_8_WithoutSectionsThereAreNoOffsets(t *testing.T) {
	k := newKernel(t)
	k.write("proc/modules", "a 4096 0 - Live 0xffffffffc0200000\n")
	k.writeSysfs("a", "\x01\x02\x03\x04", sections{".text": 0xffffffffc0200000})
	k.write("sys/module/a/sections/.text", "hidden\n")
	k.write("proc/kallsyms", core+"ffffffffc0200000 t f\t[a]\n")
	table, degraded := k.readTable()
	require.ErrorIs(t, degraded, ErrSyntax)
	m := table.Loaded()[0]
	assert.Empty(t, m.BuildID())
	assert.Empty(t, m.Text.FileID)
	assert.Zero(t, m.Base())
	assert.Equal(t, "a:f", lookup(table, 0xffffffffc0200000))
}

func TestModulesThatAreLeftOut(t *testing.T) {
	k := newKernel(t)
	k.write("proc/modules", "loading 4096 0 - Loading 0xffffffffc0200000\n"+
		"unloading 4096 0 - Unloading 0xffffffffc0210000\n"+
		"data_only 4096 0 - Live 0x0000000000000000\n"+
		"no_symbols 4096 0 - Live 0xffffffffc0230000\n"+
		"good 4096 0 - Live 0xffffffffc0240000\n")
	k.writeSysfs("loading", "", sections{".text": 0xffffffffc0200000})
	k.writeSysfs("unloading", "", sections{".text": 0xffffffffc0210000})
	k.writeSysfs("data_only", "", sections{".data": 0xffffffffc0300000})
	k.writeSysfs("no_symbols", "", sections{".text": 0xffffffffc0230000})
	k.writeSysfs("good", "", sections{".text": 0xffffffffc0240000})
	k.write("proc/kallsyms", core+
		"ffffffffc0200000 t f\t[loading]\nffffffffc0210000 t f\t[unloading]\nffffffffc0300000 d f\t[data_only]\n"+
		"ffffffffc0250000 t f\t[just_loaded]\nffffffffc0240000 t f\t[good]\n")
	table, degraded := k.readTable()
	require.NoError(t, degraded)
	require.Len(t, table.Loaded(), 2)
	assert.Equal(t, "no_symbols", table.Loaded()[0].Name())
	assert.Zero(t, table.Loaded()[0].Len())
	assert.Equal(t, "good", table.Loaded()[1].Name())
}

func TestContract_8_WithoutSysfsThereAreNames(t *testing.T) {
	k := newKernel(t)
	k.write("proc/modules", "a 4096 0 - Live 0xffffffffc0200000\n")
	k.write("proc/kallsyms", core+"ffffffffc0200000 t f\t[a]\n")
	require.NoError(t, os.RemoveAll(filepath.Join(k.root, "sys")))
	table, degraded := k.readTable()
	require.ErrorContains(t, degraded, "no file ID")
	require.ErrorContains(t, degraded, "mounted")
	assert.Equal(t, "a:f", lookup(table, 0xffffffffc0200010))
}

func TestKernelWithoutModules(t *testing.T) {
	k := newKernel(t)
	require.NoError(t, os.Remove(filepath.Join(k.root, "proc/modules")))
	table, degraded := k.readTable()
	require.NoError(t, degraded)
	assert.Empty(t, table.Loaded())
}

func TestHiddenAddresses(t *testing.T) {
	k := newKernel(t)
	k.write("proc/modules", "a 4096 0 - Live 0x0000000000000000\nb 4096 0 - Live 0x0000000000000000\n")
	require.NoError(t, os.RemoveAll(filepath.Join(k.root, "sys")))
	k.write("proc/kallsyms", "0000000000000000 T _text\n0000000000000000 t f\t[a]\n0000000000000000 t g\t[b]\n")
	err := k.source().Run(t.Context(), func(symcache.Update) { t.Error("published") })
	require.ErrorIs(t, err, kallsyms.ErrRestricted)
}

// TestTheFirstTableIsComplete verifies that the first table has the symbols. A caller that needs only
// the present state, as the kernelsym tool does, reads only the first table.
func TestTheFirstTableIsComplete(t *testing.T) {
	k := newKernel(t)
	k.writeSysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.write("proc/modules", "a 4096 0 - Live 0xffffffffc0200000\n")
	k.write("proc/kallsyms", core+"ffffffffc0200000 t f\t[a]\nffffffffc0210000 t g\t[not_in_the_list]\n")
	snapshot, err := symcache.Load(t.Context(), k.source())
	require.NoError(t, err)
	require.Len(t, snapshot.Tables(), 1)
	assert.Equal(t, "a:f", lookup(snapshot.Tables()[0], 0xffffffffc0200000))
}

// TestListWithShiftedLines parses lists as the kernel returns them when modules are loaded and unloaded
// during the reading.
func TestListWithShiftedLines(t *testing.T) {
	const a1, a2, b1, b2, m = "0000000000001000 t a1\t[a]\n", "0000000000001010 t a2\t[a]\n",
		"0000000000002000 t b1\t[b]\n", "0000000000002010 t b2\t[b]\n", "0000000000003000 t m\t[m]\n"
	for name, tt := range map[string]struct {
		list         string
		inconsistent bool
	}{
		"no change":                                 {a1 + a2 + b1 + b2, false},
		"a module with one symbol was loaded":       {a1 + a1 + a2 + b1 + b2, true},
		"a module with two symbols was loaded":      {a1 + a2 + a1 + a2 + b1 + b2, true},
		"a module was loaded, at the end of a":      {a1 + a2 + a2 + b1 + b2, true},
		"a module was loaded: lines of two modules": {a1 + a2 + b1 + a2 + b1 + b2, true},
		"a module that is not in the list":          {m + a1 + a2 + b2, true},
	} {
		t.Run(name, func(t *testing.T) {
			list := []listEntry{{name: "a"}, {name: "b"}}
			p := newParser(list, []*load{loadAt("b", 0x2000, 0x1000)})
			require.NoError(t, p.parse(strings.NewReader(core+tt.list)))
			assert.Equal(t, tt.inconsistent, p.inconsistent)
		})
	}
}

// TestLinesThatAlwaysOccurTwice verifies that an inconsistent list counts as consistent if it is the
// same when it is read again.
func TestLinesThatAlwaysOccurTwice(t *testing.T) {
	k := newKernel(t)
	k.writeSysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.write("proc/modules", "a 4096 0 - Live 0xffffffffc0200000\n")
	const key = "ffffffffc0200800 b __key.0\t[a]\n"
	k.write("proc/kallsyms", core+key+key+"ffffffffc0200000 t f\t[a]\n")
	f := k.stepper()
	defer f.source.stop()
	assert.False(t, f.scanOnce())
	assert.Zero(t, f.published)
	assert.True(t, f.scanOnce())
	assert.Equal(t, "a:f", lookup(f.last.Table, 0xffffffffc0200000))
}

func TestSourceErrors(t *testing.T) {
	for name, spoil := range map[string]func(k kernel){
		"list":     func(k kernel) { k.write("proc/modules", "a 4096 0 -\n") },
		"size":     func(k kernel) { k.write("proc/modules", "a x 0 - Live 0xffffffffc0200000\n") },
		"address":  func(k kernel) { k.write("proc/modules", "a 4096 0 - Live x\n") },
		"kallsyms": func(k kernel) { k.write("proc/kallsyms", core+"ffffffffc0200000 t f\t[a]\n?\n") },
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel(t)
			k.write("proc/modules", "a 4096 0 - Live 0xffffffffc0200000\n")
			k.writeSysfs("a", "", sections{".text": 0xffffffffc0200000})
			spoil(k)
			err := k.source().Run(t.Context(), func(symcache.Update) { t.Error("published") })
			require.Error(t, err)
			assert.ErrorContains(t, err, k.root, "names the file")
		})
	}
}

func FuzzParseList(f *testing.F) {
	f.Add([]byte("nf_tables 12288 2 nft_compat, Live 0xffffffffc0200000 (OE)\n"))
	f.Add([]byte("a 18446744073709551616 0 - Live 0x0"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := parseList(bytes.NewReader(data))
		if err == nil && len(list) > 1+bytes.Count(data, []byte("\n")) {
			t.Fatalf("%d modules", len(list))
		}
	})
}

// FuzzParser verifies that no module has symbols outside its range, whatever the list contains.
func FuzzParser(f *testing.F) {
	f.Add(uint64(0xffffffffc0200000), uint64(4096),
		[]byte(core+"ffffffffc0200000 t f\t[m]\nffffffffc0200010 T g\t[m]\n"))
	f.Add(uint64(math.MaxUint64-4096), uint64(8192), []byte("ffffffffffffffff t f\t[m]\n0000000000000000 t f\t[m]\n"))
	f.Fuzz(func(t *testing.T, start, size uint64, data []byte) {
		l := loadAt("m", start, size)
		p := newParser(nil, []*load{l})
		if p.parse(bytes.NewReader(data)) != nil {
			return
		}
		for _, image := range p.images {
			if image == nil {
				continue
			}
			for i := range image.Len() {
				s := image.Text.Symbol(i)
				name := image.Text.Name(s).System
				isInRange := s.Start >= start && s.End() <= l.info.End && s.Start < s.End()
				if !isInRange || strings.Contains(name, "\n") {
					t.Fatalf("%#x-%#x %q in %#x-%#x", s.Start, s.End(), name, start, start+size)
				}
			}
		}
	})
}

// loadAt returns a load whose end is fixed.
func loadAt(name string, start, size uint64) *load {
	l := &load{
		name: name, addr: start, size: size,
		layout: layout{text: start, code: []uint64{start}, initial: math.MaxUint64},
		info:   symtab.TextInfo{Base: start, Start: start},
	}
	l.fixEnd(nil)
	return l
}
