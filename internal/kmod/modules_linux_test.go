package kmod

import (
	"bufio"
	"context"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/kerneltest"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// loadMany loads modules until that many are loaded.
func loadMany(t *testing.T, n int) {
	t.Helper()
	count := func() int {
		list, err := os.ReadFile("/proc/modules")
		require.NoError(t, err)
		return strings.Count(string(list), "\n")
	}
	for _, name := range kerneltest.ModuleNames(t) {
		dir := kerneltest.FindModule(t, name).File
		if !strings.Contains(dir, "/net/") && !strings.Contains(dir, "/crypto/") && !strings.Contains(dir, "/fs/") && !strings.Contains(dir, "/lib/") {
			continue // the others want devices
		}
		_ = kerneltest.LoadModule(name) // some are for other CPUs
		if count() >= n {
			return
		}
	}
	t.Fatalf("%d modules can be loaded", count())
}

// running returns what is known of the running kernel's modules.
func running(t *testing.T) *symtab.Table {
	t.Helper()
	k := known{source: NewSource("/proc", "/sys", 0)}
	_, err := k.refresh(t.Context(), true, func() {})
	require.NoError(t, err)
	require.NoError(t, k.degraded())
	return k.table()
}

// kernelLine is a line of /proc/kallsyms.
type kernelLine struct {
	addr              uint64
	typ, name, module string
}

func (l kernelLine) isCode() bool {
	return l.typ == "t" || l.typ == "T" || l.typ == "w" || l.typ == "W"
}

// moduleLines reads the part of /proc/kallsyms that is not the core kernel's.
func moduleLines(t *testing.T) (lines []kernelLine) {
	t.Helper()
	f, err := os.Open("/proc/kallsyms")
	require.NoError(t, err)
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
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

// TestNoAddressIsOfTheWrongModule loads a hundred modules and holds every line of
// the kernel's list, and every byte of the code that their files have, against
// the table.
func TestNoAddressIsOfTheWrongModule(t *testing.T) {
	kerneltest.NeedModules(t)
	loadMany(t, 100)
	table := running(t)

	names := make(map[uint64][]string)
	lines := moduleLines(t)
	for _, l := range lines {
		if l.isCode() {
			names[l.addr] = append(names[l.addr], l.name)
		}
	}
	code, data, others := 0, 0, 0
	for _, l := range lines {
		m, found := table.ModuleAt(l.addr, symtab.Always)
		if !isModule(l.module) {
			others++
			assert.False(t, found, "%s [%s] at %x is in module", l.name, l.module, l.addr)
			continue
		}
		if found {
			require.Equal(t, l.module, m.Name, "%x %s %s", l.addr, l.typ, l.name)
		}
		if !l.isCode() || strings.HasPrefix(l.name, "__pfx_") || strings.HasPrefix(l.name, "__cfi_") {
			data++
			continue
		}
		code++
		symbol, ok := table.Lookup(l.addr, symtab.Always)
		require.True(t, ok, "%x %s [%s]", l.addr, l.name, l.module)
		require.Equal(t, l.addr, symbol.Start)
		require.Contains(t, names[l.addr], symbol.Name().System)
	}
	bytes := uint64(0)
	for _, m := range table.Modules() {
		bytes += checkCode(t, table, m.Name)
		checkBuildID(t, m)
	}
	t.Logf("%d modules: %d functions, %d other symbols, %d symbols of others, %d bytes of code",
		len(table.Modules()), code, data, others, bytes)
}

// checkCode holds the sections of code in the module's file against the table,
// and returns their size.
func checkCode(t *testing.T, table *symtab.Table, name string) (size uint64) {
	t.Helper()
	f, err := elf.Open(kerneltest.FindModule(t, name).File)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	for _, section := range f.Sections {
		if section.Flags&elf.SHF_EXECINSTR == 0 || section.Size == 0 || !isCode(section.Name) || !stays(section.Name) {
			continue // .altinstr_replacement is copied, not run
		}
		addr, err := readAddr(filepath.Join("/sys/module", name, "sections", section.Name))
		if os.IsNotExist(err) {
			continue // the kernel does without it
		}
		require.NoError(t, err)
		for at := addr; at < addr+section.Size; at += 16 {
			m, ok := table.ModuleAt(at, symtab.Always)
			require.True(t, ok, "%s%s+%#x of %#x is in no module", name, section.Name, at-addr, section.Size)
			require.Equal(t, name, m.Name)
		}
		m, ok := table.ModuleAt(addr+section.Size-1, symtab.Always)
		require.True(t, ok && m.Name == name, "last byte of %s%s", name, section.Name)
		size += section.Size
	}
	return size
}

func checkBuildID(t *testing.T, m *symtab.Module) {
	t.Helper()
	f, err := elf.Open(kerneltest.FindModule(t, m.Name).File)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	section := f.Section(".note.gnu.build-id")
	require.NotNil(t, section)
	note, err := section.Data()
	require.NoError(t, err)
	id := hex.EncodeToString(note[16:]) // behind the header and "GNU\0"
	assert.Equal(t, id, m.BuildID)
	assert.Equal(t, buildid.FileID(id), m.FileID)
}

// follower runs a source on the running kernel and has its last table.
type follower struct {
	mu      sync.Mutex
	table   *symtab.Table
	updated chan struct{} // closed with the next table
	stop    func()
}

func followRunning(t *testing.T, settle time.Duration) *follower {
	t.Helper()
	f := &follower{updated: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- NewSource("/proc", "/sys", settle).Run(ctx, func(t *symtab.Table, _ error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.table = t
			close(f.updated)
			f.updated = make(chan struct{})
		})
	}()
	f.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(f.stop)
	return f
}

// until waits until a table is as wanted, and returns how long that took.
func (f *follower) until(t *testing.T, what string, wanted func(*symtab.Table) bool) time.Duration {
	t.Helper()
	start := time.Now()
	deadline := time.After(time.Minute)
	for {
		f.mu.Lock()
		table, updated := f.table, f.updated
		f.mu.Unlock()
		if table != nil && wanted(table) {
			return time.Since(start)
		}
		select {
		case <-updated:
		case <-deadline:
			t.Fatal("waited in vain: ", what)
		}
	}
}

func find(table *symtab.Table, name string) *symtab.Module {
	for _, m := range table.Modules() {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// TestDelay loads and unloads a module again and again, and prints how long it
// took until it was known.
func TestDelay(t *testing.T) {
	kerneltest.NeedModules(t)
	const name, settle, cycles = "veth", 50 * time.Millisecond, 20
	loadMany(t, 100)
	_ = kerneltest.UnloadModule(name)
	f := followRunning(t, settle)
	f.until(t, "the first table", func(t *symtab.Table) bool { return len(t.Modules()) > 50 })
	f.until(t, "its symbols", func(t *symtab.Table) bool { return t.Modules()[0].Len() > 0 })
	start := time.Now()
	_ = moduleLines(t)
	whole := time.Since(start)

	var metadata, names, gone []time.Duration
	for range cycles {
		require.NoError(t, kerneltest.LoadModule(name))
		start := time.Now()
		f.until(t, "metadata", func(t *symtab.Table) bool { return find(t, name) != nil })
		metadata = append(metadata, time.Since(start))
		f.until(t, "names", func(t *symtab.Table) bool { return find(t, name).Len() > 0 })
		names = append(names, time.Since(start))
		require.NoError(t, kerneltest.UnloadModule(name))
		gone = append(gone, f.until(t, "removal", func(t *symtab.Table) bool { return find(t, name) == nil }))
	}
	for what, times := range map[string][]time.Duration{"metadata": metadata, "names": names, "removal": gone} {
		slices.Sort(times)
		t.Logf("%s: median %s, maximum %s", what, times[len(times)/2].Round(time.Millisecond), times[len(times)-1].Round(time.Millisecond))
	}
	t.Logf("settle %s; reading all of kallsyms, and scanning it: %s", settle, whole.Round(time.Millisecond))
}

// TestChurn loads and unloads modules, which take each other's addresses, and
// compares the table with a fresh one in the end.
func TestChurn(t *testing.T) {
	kerneltest.NeedModules(t)
	f := followRunning(t, 5*time.Millisecond)
	modules := []string{"veth", "dummy", "ifb", "nlmon", "macvlan"}
	for i := range 200 {
		name := modules[i%len(modules)]
		if err := kerneltest.LoadModule(name); err != nil {
			require.NoError(t, err)
		}
		if i%7 != 0 {
			require.NoError(t, kerneltest.UnloadModule(name))
		}
	}
	for _, name := range modules {
		_ = kerneltest.UnloadModule(name)
	}
	require.NoError(t, kerneltest.LoadModule("veth"))
	var got, want []string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Second) {
		f.mu.Lock()
		got = described(f.table)
		f.mu.Unlock()
		if want = described(running(t)); slices.Equal(got, want) {
			break
		}
	}
	assert.Equal(t, want, got, "as a fresh table")
}

func described(table *symtab.Table) (modules []string) {
	for _, m := range table.Modules() {
		modules = append(modules, fmt.Sprintf("%+v, %d symbols", m.ModuleInfo, m.Len()))
	}
	return modules
}
