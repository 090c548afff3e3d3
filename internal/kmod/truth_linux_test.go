// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A kernelLine is a line of /proc/kallsyms.
type kernelLine struct {
	addr              uint64
	typ, name, module string
}

func (l kernelLine) isCode() bool {
	return l.typ == "t" || l.typ == "T" || l.typ == "w" || l.typ == "W"
}

// isName reports whether the symbol names code: the others only mark where code ends.
func (l kernelLine) isName() bool {
	return l.isCode() && !strings.HasPrefix(l.name, "__pfx_") && !strings.HasPrefix(l.name, "__cfi_") &&
		!strings.HasPrefix(l.name, "$") // symbols of arm64's linker, within functions
}

// moduleLines reads the part of /proc/kallsyms after the core kernel.
func moduleLines(t *testing.T) (lines []kernelLine) {
	t.Helper()
	f, err := os.Open("/proc/kallsyms")
	require.NoError(t, err)
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if !bytes.HasSuffix(s.Bytes(), []byte("]")) {
			continue
		}
		fields := strings.Fields(s.Text())
		if len(fields) != 4 {
			continue
		}
		l := kernelLine{typ: fields[1], name: fields[2], module: strings.Trim(fields[3], "[]")}
		_, err := fmt.Sscanf(fields[0], "%x", &l.addr)
		require.NoError(t, err)
		lines = append(lines, l)
	}
	return lines
}

// TestNoAddressIsInTheWrongModule loads a hundred modules. It compares the table with every line of the
// kernel's list, and with the code in the modules' files.
func TestNoAddressIsInTheWrongModule(t *testing.T) {
	kerneltest.NeedModules(t)
	loadMany(t)
	table := runningTable(t)

	names := make(map[uint64][]string)
	lines := moduleLines(t)
	for _, l := range lines {
		if l.isCode() {
			names[l.addr] = append(names[l.addr], l.name)
		}
	}
	code, data, others := 0, 0, 0
	for _, l := range lines {
		m, found := imageAt(table, l.addr)
		if !isModule(l.module) {
			others++
			assert.False(t, found, "%s [%s] at %x is in module", l.name, l.module, l.addr)
			continue
		}
		if found {
			require.Equal(t, l.module, m.Name(), "%x %s %s", l.addr, l.typ, l.name)
		}
		if !l.isName() {
			data++
			continue
		}
		code++
		m, _ = imageAt(table, l.addr)
		require.NotNil(t, m, "%x %s [%s]", l.addr, l.name, l.module)
		symbol := m.Lookup(l.addr)
		require.True(t, symbol.Exists(), "%x %s [%s]", l.addr, l.name, l.module)
		require.Equal(t, l.addr, symbol.Start)
		require.Contains(t, names[l.addr], m.Text.Name(symbol).System)
	}
	size := uint64(0)
	for _, m := range table.Loaded() {
		size += checkCode(t, table, m.Name())
		checkBuildID(t, m)
	}
	t.Logf("%d modules: %d functions, %d other symbols, %d symbols of others, %d bytes of code",
		len(table.Loaded()), code, data, others, size)
}

// imageAt returns the module at an address.
func imageAt(table *timeline.Table, addr uint64) (*timeline.Image, bool) {
	hit, _ := timeline.NewSnapshot(table).At(addr, timeline.Present)
	return hit.Image, hit.Image != nil
}

// checkCode compares the table with the sections of code in a module's file, and returns the size of
// these sections.
func checkCode(t *testing.T, table *timeline.Table, name string) (size uint64) {
	t.Helper()
	f, err := elf.Open(kerneltest.FindModule(t, name).File)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	end := find(table, name).End
	for _, section := range f.Sections {
		isInit := strings.HasPrefix(section.Name, ".init")
		if section.Flags&elf.SHF_EXECINSTR == 0 || section.Size == 0 || !isCode(section.Name) || isInit {
			continue // .altinstr_replacement is copied, but not run
		}
		addr, err := readAddr(filepath.Join("/sys/module", name, "sections", section.Name))
		if os.IsNotExist(err) {
			continue // the kernel did not load it
		}
		require.NoError(t, err)
		for _, at := range append(every16(addr, section.Size), addr+section.Size-1) {
			m, ok := imageAt(table, at)
			if !ok && at >= end && end%4096 == 0 {
				continue // the part of the last function that is not in its first page (section 3.2)
			}
			require.True(t, ok, "%s%s+%#x of %#x is in no module", name, section.Name, at-addr, section.Size)
			require.Equal(t, name, m.Name())
		}
		size += section.Size
	}
	return size
}

// every16 returns every sixteenth address of a section.
func every16(addr, size uint64) (all []uint64) {
	for at := addr; at < addr+size; at += 16 {
		all = append(all, at)
	}
	return all
}

// checkBuildID compares a module's build id with the one in its file.
func checkBuildID(t *testing.T, m *timeline.Image) {
	t.Helper()
	f, err := elf.Open(kerneltest.FindModule(t, m.Name()).File)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	section := f.Section(".note.gnu.build-id")
	require.NotNil(t, section)
	note, err := section.Data()
	require.NoError(t, err)
	id := hex.EncodeToString(note[16:]) // after the header and "GNU\0"
	assert.Equal(t, id, m.BuildID())
	assert.Equal(t, buildid.FileID(id), m.Text.FileID)
}
