package kmod

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kernel is a fixture tree: what a kernel shows of its modules.
type kernel struct {
	t    *testing.T
	root string
}

func newKernel(t *testing.T) kernel {
	k := kernel{t, t.TempDir()}
	k.write("proc/modules", "")
	k.write("proc/kallsyms", core)
	require.NoError(t, os.MkdirAll(filepath.Join(k.root, "sys/module"), 0o755))
	return k
}

const core = "ffffffff81000000 T _text\nffffffff81000000 T f\nffffffff81001000 T _etext\n"

func (k kernel) write(name, text string) {
	k.t.Helper()
	name = filepath.Join(k.root, name)
	require.NoError(k.t, os.MkdirAll(filepath.Dir(name), 0o755))
	// At once, as the kernel shows it.
	require.NoError(k.t, os.WriteFile(name+"~", []byte(text), 0o600))
	require.NoError(k.t, os.Rename(name+"~", name))
}

// sections are the addresses of a module's sections.
type sections map[string]uint64

// sysfs writes a module's directory.
func (k kernel) sysfs(name, buildID string, at sections) {
	dir := filepath.Join("sys/module", name)
	for section, addr := range at {
		k.write(filepath.Join(dir, "sections", section), fmt.Sprintf("0x%016x\n", addr))
	}
	if buildID != "" {
		k.write(filepath.Join(dir, "notes/.note.gnu.build-id"), "\x04\x00\x00\x00\x04\x00\x00\x00\x03\x00\x00\x00GNU\x00"+buildID)
	}
}

// ticks are events of a module every millisecond.
type ticks struct{}

func (ticks) Receive(ctx context.Context) (uevent.Event, error) {
	if !sleep(ctx, time.Millisecond) {
		return uevent.Event{}, ctx.Err()
	}
	return uevent.Event{Action: "add", Subsystem: "module"}, nil
}

func (ticks) Close() error { return nil }

func (k kernel) source() *Source {
	s := NewSource(filepath.Join(k.root, "proc"), filepath.Join(k.root, "sys"), time.Millisecond, symtab.History{})
	s.dial = func() (events, error) { return ticks{}, nil }
	return s
}

// load returns what is known in the end.
func (k kernel) load() (*symtab.Table, error) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), time.Minute)
	defer cancel()
	var table *symtab.Table
	var degraded error
	source := known{source: k.source()}
	for table == nil {
		_, err := source.refresh(ctx, func() { table, degraded = source.table(), source.degraded() })
		require.NoError(k.t, err)
	}
	return table, degraded
}

func lookup(t *symtab.Table, addr uint64) string {
	sym, ok := t.Lookup(addr, symtab.Always)
	if !ok {
		return ""
	}
	return sym.Module.Name + ":" + sym.Name().System
}

func TestModule(t *testing.T) {
	k := newKernel(t)
	k.write("proc/modules", "nf_tables 12288 2 nft_compat,nft_chain_nat, Live 0xffffffffc0200000\n")
	k.sysfs("nf_tables", "\xde\xad\xbe\xef",
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
	table, degraded := k.load()
	require.NoError(t, degraded)
	require.Len(t, table.Modules(), 1)
	assert.Equal(t, symtab.ModuleInfo{
		Name: "nf_tables", Origin: symtab.OriginModule,
		BuildID: "deadbeef", FileID: buildid.FileID("deadbeef"),
		Base: 0xffffffffc0200000, Start: 0xffffffffc0200000, End: 0xffffffffc0201000,
		Valid: symtab.Always,
	}, table.Modules()[0].ModuleInfo)
	for addr, want := range map[uint64]string{
		0xffffffffc01fffff: "",
		0xffffffffc0200000: "nf_tables:first",
		0xffffffffc02000ff: "nf_tables:first",
		0xffffffffc0200100: "nf_tables:second",
		0xffffffffc0200900: "nf_tables:second.cold",
		0xffffffffc0200fff: "nf_tables:second.cold", // up to the data
		0xffffffffc0201000: "",
		0xffffffffc0100000: "", // init text
		0xffffffffc0300000: "",
	} {
		assert.Equal(t, want, lookup(table, addr), "%#x", addr)
	}
}

func TestModuleEndsAtTheNext(t *testing.T) {
	k := newKernel(t)
	// Since Linux 6.4 the size tells nothing of where the text ends.
	k.write("proc/modules", "a 1048576 0 - Live 0xffffffffc0200000\nb 4096 0 - Live 0xffffffffc0200800\n")
	k.sysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.sysfs("b", "", sections{".text": 0xffffffffc0200800})
	k.write("proc/kallsyms", core+"ffffffffc0200800 t g\t[b]\nffffffffc0200000 t f\t[a]\n")
	table, degraded := k.load()
	require.NoError(t, degraded)
	assert.Equal(t, "a:f", lookup(table, 0xffffffffc02007ff))
	assert.Equal(t, "b:g", lookup(table, 0xffffffffc0200800))
	assert.Equal(t, "b:g", lookup(table, 0xffffffffc02017ff))
	assert.Empty(t, lookup(table, 0xffffffffc0201800))
	assert.Equal(t, uint64(0xffffffffc0200800), table.Modules()[0].End)
}

func TestTextBelowDotText(t *testing.T) {
	// Before Linux 6.4 other code sections could lie below .text.
	k := newKernel(t)
	k.write("proc/modules", "a 8192 0 - Live 0xffffffffc0200000\n")
	k.sysfs("a", "", sections{".text": 0xffffffffc0200400, ".noinstr.text": 0xffffffffc0200000})
	k.write("proc/kallsyms", core+"ffffffffc0200000 t f\t[a]\nffffffffc0200400 t g\t[a]\n")
	table, _ := k.load()
	m := table.Modules()[0]
	assert.Equal(t, uint64(0xffffffffc0200400), m.Base)
	assert.Equal(t, uint64(0xffffffffc0200000), m.Start)
	assert.Equal(t, "a:f", lookup(table, 0xffffffffc0200000))
}

// TestRelocationsAreNoCode: those of a livepatch are in sections whose names end
// in .text.
func TestRelocationsAreNoCode(t *testing.T) {
	k := newKernel(t)
	k.write("proc/modules", "patch 8192 0 - Live 0xffffffffc0300000\nother 4096 0 - Live 0xffffffffc0200000\n")
	k.sysfs("other", "", sections{".text": 0xffffffffc0200000})
	k.sysfs("patch", "", sections{".text": 0xffffffffc0300000, ".klp.rela.vmlinux..text": 0xffffffffc0100000})
	k.write("proc/kallsyms", core+"ffffffffc0300000 t fixed\t[patch]\nffffffffc0200000 t f\t[other]\n")
	table, degraded := k.load()
	require.NoError(t, degraded)
	assert.Equal(t, "patch:fixed", lookup(table, 0xffffffffc0300000))
	assert.Equal(t, "other:f", lookup(table, 0xffffffffc0200000))
}

// TestBuildIDWithoutSections: what sysfs does tell is used.
func TestBuildIDWithoutSections(t *testing.T) {
	k := newKernel(t)
	k.write("proc/modules", "a 4096 0 - Live 0xffffffffc0200000\n")
	k.sysfs("a", "\x01\x02\x03\x04", sections{".text": 0xffffffffc0200000})
	k.write("sys/module/a/sections/.text", "hidden\n")
	k.write("proc/kallsyms", core+"ffffffffc0200000 t f\t[a]\n")
	table, degraded := k.load()
	require.ErrorIs(t, degraded, ErrSyntax)
	assert.Equal(t, "01020304", table.Modules()[0].BuildID)
	assert.Equal(t, "a:f", lookup(table, 0xffffffffc0200000))
}

func TestModulesThatAreLeftOut(t *testing.T) {
	k := newKernel(t)
	k.write("proc/modules", "loading 4096 0 - Loading 0xffffffffc0200000\n"+
		"unloading 4096 0 - Unloading 0xffffffffc0210000\n"+
		"data_only 4096 0 - Live 0x0000000000000000\n"+
		"gone 4096 0 - Live 0xffffffffc0220000\n"+
		"no_symbols 4096 0 - Live 0xffffffffc0230000\n"+
		"good 4096 0 - Live 0xffffffffc0240000\n")
	k.sysfs("loading", "", sections{".text": 0xffffffffc0200000})
	k.sysfs("unloading", "", sections{".text": 0xffffffffc0210000})
	k.sysfs("data_only", "", sections{".data": 0xffffffffc0300000})
	k.sysfs("no_symbols", "", sections{".text": 0xffffffffc0230000})
	k.sysfs("good", "", sections{".text": 0xffffffffc0240000})
	k.write("proc/kallsyms", core+
		"ffffffffc0200000 t f\t[loading]\nffffffffc0210000 t f\t[unloading]\nffffffffc0300000 d f\t[data_only]\n"+
		"ffffffffc0220000 t f\t[gone]\nffffffffc0250000 t f\t[just_loaded]\nffffffffc0240000 t f\t[good]\n")
	table, degraded := k.load()
	require.NoError(t, degraded)
	require.Len(t, table.Modules(), 2)
	assert.Equal(t, "no_symbols", table.Modules()[0].Name)
	assert.Zero(t, table.Modules()[0].Len())
	assert.Equal(t, "good", table.Modules()[1].Name)
}

func TestContract_8_WithoutSysfsThereAreNames(t *testing.T) {
	k := newKernel(t)
	k.write("proc/modules", "a 4096 0 - Live 0xffffffffc0200000\n")
	k.write("proc/kallsyms", core+"ffffffffc0200000 t f\t[a]\n")
	require.NoError(t, os.RemoveAll(filepath.Join(k.root, "sys")))
	table, degraded := k.load()
	require.ErrorContains(t, degraded, "no file ID")
	require.ErrorContains(t, degraded, "mounted")
	assert.Equal(t, "a:f", lookup(table, 0xffffffffc0200010))
}

func TestKernelWithoutModules(t *testing.T) {
	k := newKernel(t)
	require.NoError(t, os.Remove(filepath.Join(k.root, "proc/modules")))
	table, degraded := k.load()
	require.NoError(t, degraded)
	assert.Empty(t, table.Modules())
}

func TestHiddenAddresses(t *testing.T) {
	k := newKernel(t)
	k.write("proc/modules", "a 4096 0 - Live 0x0000000000000000\nb 4096 0 - Live 0x0000000000000000\n")
	require.NoError(t, os.RemoveAll(filepath.Join(k.root, "sys")))
	k.write("proc/kallsyms", "0000000000000000 T _text\n0000000000000000 t f\t[a]\n0000000000000000 t g\t[b]\n")
	err := k.source().Run(t.Context(), func(*symtab.Table, error) { t.Error("published") })
	require.ErrorIs(t, err, kallsyms.ErrRestricted)
}

// TestTheFirstTableIsWhole: whoever only wants to know what there is now, as the
// tool does, takes the first.
func TestTheFirstTableIsWhole(t *testing.T) {
	k := newKernel(t)
	k.sysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.write("proc/modules", "a 4096 0 - Live 0xffffffffc0200000\n")
	k.write("proc/kallsyms", core+"ffffffffc0200000 t f\t[a]\nffffffffc0210000 t g\t[not_in_the_list]\n")
	snapshot, err := symcache.Load(t.Context(), k.source())
	require.NoError(t, err)
	require.Len(t, snapshot.Tables(), 1)
	assert.Equal(t, "a:f", lookup(snapshot.Tables()[0], 0xffffffffc0200000))
}

// TestSourceFollows loads, replaces and unloads a module.
func TestSourceFollows(t *testing.T) {
	k := newKernel(t)
	tables := make(chan *symtab.Table)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- k.source().Run(ctx, func(t *symtab.Table, _ error) { tables <- t })
	}()
	assert.Empty(t, (<-tables).Modules())

	k.sysfs("a", "\x01\x02\x03\x04", sections{".text": 0xffffffffc0200000})
	k.write("proc/kallsyms", core+"ffffffffc0200000 t f\t[a]\n")
	k.write("proc/modules", "a 4096 0 - Live 0xffffffffc0200000\n")
	table := <-tables
	for len(table.Modules()) == 0 { // between two of the writes
		table = <-tables
	}
	assert.Equal(t, "01020304", table.Modules()[0].BuildID)

	// The same name, size and address, but another build.
	old := filepath.Join(k.root, "old")
	require.NoError(t, os.Rename(filepath.Join(k.root, "sys/module/a"), old))
	k.sysfs("a", "\x05\x06\x07\x08", sections{".text": 0xffffffffc0200000})
	for len(table.Modules()) == 0 || table.Modules()[0].BuildID != "05060708" {
		table = <-tables
	}

	k.write("proc/modules", "")
	for len(table.Modules()) > 0 {
		table = <-tables
	}
	cancel()
	for {
		select {
		case <-tables:
		case err := <-done:
			require.NoError(t, err)
			return
		}
	}
}

// told is events that a test sends.
type told chan uevent.Event

func (c told) Receive(ctx context.Context) (uevent.Event, error) {
	select {
	case <-ctx.Done():
		return uevent.Event{}, ctx.Err()
	case e, ok := <-c:
		if !ok {
			return uevent.Event{}, os.ErrClosed
		}
		return e, nil
	}
}

func (told) Close() error { return nil }

var moduleEvent = uevent.Event{Action: "add", Subsystem: "module"}

// publications are what a source published: the numbers of modules with and
// without symbols.
type publications struct {
	mu  sync.Mutex
	all [][2]int
}

func (p *publications) publish(t *symtab.Table, _ error) {
	var n [2]int
	for _, m := range t.Modules() {
		if m.Len() > 0 {
			n[0]++
		} else {
			n[1]++
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, n)
}

func (p *publications) get() [][2]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all)
}

// follow runs a source until stop is called.
func follow(t *testing.T, s *Source) (p *publications, stop func()) {
	t.Helper()
	p = &publications{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, p.publish) }()
	return p, func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// TestSettle loads a second module while the source waits after the first: both
// are read at once. What they are is published before their symbols.
func TestSettle(t *testing.T) {
	k := newKernel(t)
	synctest.Test(t, func(t *testing.T) {
		s := k.source()
		conn := make(told)
		s.dial = func() (events, error) { return conn, nil }
		s.settle = time.Second
		published, stop := follow(t, s)
		time.Sleep(time.Millisecond)
		k.sysfs("a", "", sections{".text": 0xffffffffc0200000})
		k.sysfs("b", "", sections{".text": 0xffffffffc0210000})
		k.write("proc/kallsyms", core+"ffffffffc0210000 t g\t[b]\nffffffffc0200000 t f\t[a]\n")
		const a = "a 4096 0 - Live 0xffffffffc0200000\n"
		k.write("proc/modules", a)
		conn <- moduleEvent
		time.Sleep(500 * time.Millisecond)
		k.write("proc/modules", "b 4096 0 - Live 0xffffffffc0210000\n"+a)
		conn <- moduleEvent
		time.Sleep(time.Minute)
		stop()
		assert.Equal(t, [][2]int{{0, 0}, {0, 2}, {2, 0}}, published.get())
		assert.Equal(t, symcache.Counts{
			Updates: [symcache.NumKinds]int64{symcache.KindLoad: 2, symcache.KindSymbols: 2},
		}, s.Stats().Counts())
	})
}

// TestRemovalIsToldBeforeItHappens: the module is in the list for a while yet.
func TestRemovalIsToldBeforeItHappens(t *testing.T) {
	k := newKernel(t)
	k.sysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.write("proc/kallsyms", core+"ffffffffc0200000 t f\t[a]\n")
	k.write("proc/modules", "a 4096 0 - Live 0xffffffffc0200000\n")
	synctest.Test(t, func(t *testing.T) {
		s := k.source()
		conn := make(told)
		s.dial = func() (events, error) { return conn, nil }
		published, stop := follow(t, s)
		time.Sleep(time.Millisecond)
		k.write("proc/modules", "a 4096 0 - Unloading 0xffffffffc0200000\n")
		conn <- moduleEvent
		time.Sleep(30 * time.Millisecond)
		k.write("proc/modules", "")
		time.Sleep(time.Second)
		k.sysfs("b", "", sections{".text": 0xffffffffc0200000}) // nothing looks
		k.write("proc/modules", "b 4096 0 - Live 0xffffffffc0200000\n")
		time.Sleep(time.Minute)
		stop()
		assert.Equal(t, [][2]int{{1, 0}, {0, 0}}, published.get())
	})
}

// TestContract_8_WithoutEventsTheListIsPolled has the socket refused, then break,
// then lose events.
func TestContract_8_WithoutEventsTheListIsPolled(t *testing.T) {
	k := newKernel(t)
	synctest.Test(t, func(t *testing.T) {
		s := k.source()
		refused, broken := errors.New("refused"), errors.New("broken")
		conns := []events{nil, failing{broken}, failing{uevent.ErrLost}}
		s.dial = func() (events, error) {
			conn := conns[0]
			if len(conns) > 1 {
				conns = conns[1:]
			}
			if conn == nil {
				return nil, refused
			}
			return conn, nil
		}
		var said []string
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- s.Run(ctx, func(_ *symtab.Table, degraded error) {
				said = append(said, fmt.Sprint(degraded))
			})
		}()
		time.Sleep(time.Minute)
		cancel()
		require.NoError(t, <-done)
		assert.Equal(t, []string{
			"modules are looked at once a second only: refused", "<nil>",
			"modules are looked at once a second only: broken", "<nil>",
		}, said)
		counts := s.Stats().Counts()
		assert.Positive(t, counts.LostRecords)
		assert.Equal(t, counts.LostRecords+2, counts.Resyncs, "each loss, and what came while there was no socket")
	})
}

// failing is a connection that fails after a second.
type failing struct{ err error }

func (f failing) Receive(ctx context.Context) (uevent.Event, error) {
	if !sleep(ctx, time.Second) {
		return uevent.Event{}, ctx.Err()
	}
	return uevent.Event{}, f.err
}

func (failing) Close() error { return nil }

// TestOnlyWhatIsNewIsRead has a list of symbols that is damaged behind the newest
// module: it is not read so far.
func TestOnlyWhatIsNewIsRead(t *testing.T) {
	k := newKernel(t)
	const a, b = "a 4096 0 - Live 0xffffffffc0200000\n", "b 4096 0 - Live 0xffffffffc0210000\n"
	k.sysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.sysfs("b", "", sections{".text": 0xffffffffc0210000})
	k.write("proc/modules", a)
	k.write("proc/kallsyms", core+"ffffffffc0200000 t f\t[a]\n")
	known := known{source: k.source()}
	_, err := known.refresh(t.Context(), func() {})
	require.NoError(t, err)
	k.write("proc/modules", b+a)
	k.write("proc/kallsyms", core+"ffffffffc0210000 t g\t[b]\nffffffffc0200000 t f\t[a]\n?\n")
	_, err = known.refresh(t.Context(), func() {})
	require.NoError(t, err)
	assert.Equal(t, "b:g", lookup(known.table(), 0xffffffffc0210000))
	assert.Equal(t, "a:f", lookup(known.table(), 0xffffffffc0200000))
}

// TestListThatChangesMeanwhile has the kernel load a module while the symbols
// are read: what was read then is not published.
func TestListThatChangesMeanwhile(t *testing.T) {
	k := newKernel(t)
	// A pipe for each time that the symbols are read.
	kallsyms := filepath.Join(k.root, "proc/kallsyms")
	newPipe := func() {
		require.NoError(t, unix.Mkfifo(kallsyms+"~", 0o600))
		require.NoError(t, os.Rename(kallsyms+"~", kallsyms))
	}
	newPipe()
	const a, b = "a 4096 0 - Live 0xffffffffc0200000\n", "b 4096 0 - Live 0xffffffffc0210000\n"
	k.write("proc/modules", a)
	k.sysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.sysfs("b", "", sections{".text": 0xffffffffc0210000})
	published, stop := follow(t, k.source())
	symbols := map[string]string{
		a: "ffffffffc0200000 t f\t[a]\n", b + a: "ffffffffc0210000 t g\t[b]\nffffffffc0200000 t f\t[a]\n",
	}
	give := func(list, after string) {
		f, err := os.OpenFile(kallsyms, os.O_WRONLY, 0) // waits for the reader
		require.NoError(t, err)
		newPipe()
		k.write("proc/modules", after)
		_, err = f.WriteString(core + symbols[list])
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	give(a, a)
	wait := func(n int) {
		require.Eventually(t, func() bool { return len(published.get()) == n }, time.Minute, time.Millisecond)
	}
	wait(1)
	k.write("proc/modules", b+a)
	give(b+a, a) // b is gone when its symbols have been read
	wait(3)
	stop()
	assert.Equal(t, [][2]int{{1, 0}, {1, 1}, {1, 0}}, published.get(), "b never had symbols")
}

// TestListThatWasShifted reads lists as the kernel gives them when modules come
// and go meanwhile.
func TestListThatWasShifted(t *testing.T) {
	const a1, a2, b1, b2, m = "0000000000001000 t a1\t[a]\n", "0000000000001010 t a2\t[a]\n",
		"0000000000002000 t b1\t[b]\n", "0000000000002010 t b2\t[b]\n", "0000000000003000 t m\t[m]\n"
	for name, tt := range map[string]struct {
		list string
		torn bool
	}{
		"quiet":                                  {a1 + a2 + b1 + b2, false},
		"one came, with one symbol":              {a1 + a1 + a2 + b1 + b2, true},
		"one came, with two":                     {a1 + a2 + a1 + a2 + b1 + b2, true},
		"one came, at the border":                {a1 + a2 + a2 + b1 + b2, true},
		"one came, with more than a module":      {a1 + a2 + b1 + a2 + b1 + b2, true},
		"one was there that was not in the list": {m + a1 + a2 + b2, true},
	} {
		t.Run(name, func(t *testing.T) {
			list := []identity{{listed: listed{name: "a"}}, {listed: listed{name: "b"}}}
			p := newParser(list, []*module{{identity: list[1], info: symtab.ModuleInfo{Start: 0x2000, End: 0x3000}}})
			require.NoError(t, p.parse(strings.NewReader(core+tt.list)))
			assert.Equal(t, tt.torn, p.torn)
		})
	}
}

// TestLinesThatStandThereTwiceForGood: what looks like a shift, but is the same
// when it is read again, is none.
func TestLinesThatStandThereTwiceForGood(t *testing.T) {
	k := newKernel(t)
	k.sysfs("a", "", sections{".text": 0xffffffffc0200000})
	k.write("proc/modules", "a 4096 0 - Live 0xffffffffc0200000\n")
	const key = "ffffffffc0200800 b __key.0\t[a]\n"
	k.write("proc/kallsyms", core+key+key+"ffffffffc0200000 t f\t[a]\n")
	known := known{source: k.source()}
	again, err := known.refresh(t.Context(), func() {})
	require.NoError(t, err)
	assert.NotZero(t, again)
	assert.Empty(t, lookup(known.table(), 0xffffffffc0200000))
	again, err = known.refresh(t.Context(), func() {})
	require.NoError(t, err)
	assert.Zero(t, again)
	assert.Equal(t, "a:f", lookup(known.table(), 0xffffffffc0200000))
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
			k.sysfs("a", "", sections{".text": 0xffffffffc0200000})
			spoil(k)
			err := k.source().Run(t.Context(), func(table *symtab.Table, _ error) {
				assert.Zero(t, table.Modules()[0].Len(), "its symbols were not read")
			})
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

// FuzzParser: whatever the list says, no module has symbols outside of its
// range.
func FuzzParser(f *testing.F) {
	f.Add(uint64(0xffffffffc0200000), uint64(4096), []byte(core+"ffffffffc0200000 t f\t[m]\nffffffffc0200010 T g\t[m]\n"))
	f.Add(uint64(math.MaxUint64-4096), uint64(8192), []byte("ffffffffffffffff t f\t[m]\n0000000000000000 t f\t[m]\n"))
	f.Fuzz(func(t *testing.T, start, size uint64, data []byte) {
		p := newParser(nil, []*module{{
			identity: identity{listed: listed{name: "m"}},
			info:     symtab.ModuleInfo{Name: "m", Base: start, Start: start, End: start + size, Valid: symtab.Always},
		}})
		if p.parse(bytes.NewReader(data)) != nil {
			return
		}
		for _, m := range p.built {
			if m == nil {
				continue
			}
			for i := range m.Len() {
				if s := m.Symbol(i); s.Start < start || s.End > start+size || s.Start >= s.End || strings.Contains(s.Name().System, "\n") {
					t.Fatalf("%#x-%#x %q in %#x-%#x", s.Start, s.End, s.Name().System, start, start+size)
				}
			}
		}
	})
}
