// SPDX-License-Identifier: Apache-2.0

package kallsyms

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/timeline/timelinetest"
)

// run runs a source until it publishes or fails.
func run(t *testing.T, s *Source) (symcache.Update, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got symcache.Update
	err := s.Run(ctx, func(u symcache.Update) {
		got = u
		cancel()
	})
	return got, err
}

func write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
}

const gnuNote = "\x04\x00\x00\x00\x04\x00\x00\x00\x03\x00\x00\x00GNU\x00\xde\xad\xbe\xef"

func TestSourcePublishesCoreWithBuildID(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "proc/kallsyms"), small)
	write(t, filepath.Join(root, "sys/kernel/notes"), gnuNote)
	got, err := run(t, NewSource(filepath.Join(root, "proc"), filepath.Join(root, "sys"), nil))
	require.NoError(t, err)
	require.NoError(t, got.Degraded)
	require.Len(t, got.Table.Loaded(), 1)
	core := got.Table.Loaded()[0]
	assert.Equal(t, "deadbeef", core.BuildID())
	assert.Equal(t, buildid.FileID("deadbeef"), core.Text.FileID)
}

func TestContract_8_WithoutSysfsThereAreNamesButNoBuildID(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "proc/kallsyms"), small)
	for name, notes := range map[string]string{"no file": "", "other notes": "\x04\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00Xen\x00", "garbage": "garbage"} {
		t.Run(name, func(t *testing.T) {
			sysfs := t.TempDir()
			if notes != "" {
				write(t, filepath.Join(sysfs, "kernel/notes"), notes)
			}
			got, err := run(t, NewSource(filepath.Join(root, "proc"), sysfs, nil))
			require.NoError(t, err)
			require.ErrorContains(t, got.Degraded, "no file ID")
			require.ErrorContains(t, got.Degraded, sysfs)
			core := got.Table.Loaded()[0]
			assert.Empty(t, core.BuildID())
			assert.Empty(t, core.Text.FileID)
			assert.NotZero(t, core.Len())
		})
	}
}

// TestContract_8_SysfsCanComeLater mounts sysfs an hour after the start.
func TestContract_8_SysfsCanComeLater(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	root := t.TempDir()
	write(t, filepath.Join(root, "proc/kallsyms"), small)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var ids []string
		ended := make(chan error)
		go func() {
			ended <- NewSource(filepath.Join(root, "proc"), filepath.Join(root, "sys"), nil).Run(ctx, func(u symcache.Update) {
				core := u.Table.Loaded()[0]
				ids = append(ids, core.BuildID())
				assert.Equal(t, core.BuildID() == "", u.Degraded != nil)
			})
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{""}, ids, "nothing new, nothing published")
		write(t, filepath.Join(root, "sys/kernel/notes"), "\x04\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00GNU\x00\xab\xcd\x00\x00")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"", "abcd"}, ids)
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestSourceErrors(t *testing.T) {
	root := t.TempDir()
	_, err := run(t, NewSource(root, root, nil))
	require.ErrorIs(t, err, fs.ErrNotExist)

	write(t, filepath.Join(root, "kallsyms"), "0000000000000000 T _text\n")
	_, err = run(t, NewSource(root, root, nil))
	require.ErrorIs(t, err, ErrRestricted)
	assert.ErrorContains(t, err, root, "names the file")
}

// hiddenLists are ways in which a kernel hides its symbols. TestHidden has another: root may read any file of a test.
var hiddenLists = map[string]func(t *testing.T, list string){
	"zeros":  func(t *testing.T, list string) { t.Helper(); write(t, list, "0000000000000000 T _text\n") },
	"absent": func(*testing.T, string) {},
}

// A fakeLocator finds an image, or says why not.
type fakeLocator struct {
	image *timeline.Image
	err   error
	asked []string // the build ids
}

func (l *fakeLocator) Locate(_ context.Context, buildID string) (*timeline.Image, error) {
	l.asked = append(l.asked, buildID)
	return l.image, l.err
}

// locatedAt returns a core kernel that was located.
func locatedAt(t *testing.T, base uint64) *timeline.Image {
	t.Helper()
	return timelinetest.NewImage(t, timelinetest.Text{BuildID: "deadbeef", Base: base, Start: base, End: base + 0x1000},
		timelinetest.Symbol{Name: "f"}).AsLocated()
}

// TestContract_10_5_TheListWinsOnceItCanBeRead verifies that the located kernel is published while the list is hidden, and
// that the list is read every minute, wins for good, and says whether the kernel was where it had been located.
func TestContract_10_5_TheListWinsOnceItCanBeRead(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	core, err := ParseCore(strings.NewReader(small), runtime.GOARCH, "", "")
	require.NoError(t, err)
	for _, hide := range hiddenLists {
		for wrong, base := range []uint64{core.Base(), core.Base() + 2<<20} {
			root := t.TempDir()
			list := filepath.Join(root, "proc/kallsyms")
			hide(t, list)
			write(t, filepath.Join(root, "sys/kernel/notes"), gnuNote)
			locator := &fakeLocator{image: locatedAt(t, base)}
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				var updates []symcache.Update
				ended := make(chan error)
				s := NewSource(filepath.Join(root, "proc"), filepath.Join(root, "sys"), locator)
				go func() {
					ended <- s.Run(ctx, func(u symcache.Update) { updates = append(updates, u) })
				}()
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Len(t, updates, 1)
				assert.True(t, updates[0].Table.Loaded()[0].IsLocated)
				require.ErrorIs(t, updates[0].Degraded, ErrLocated)
				assert.NotContains(t, updates[0].Degraded.Error(), strconv.FormatUint(base, 16))
				write(t, list, small)
				time.Sleep(retryHidden)
				synctest.Wait()
				require.Len(t, updates, 2)
				write(t, list, "0000000000000000 T _text\n")
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Len(t, updates, 2, "the list was read for good")
				assert.Equal(t, []string{"deadbeef"}, locator.asked, "once")
				cancel()
				require.NoError(t, <-ended)
				got, err := run(t, s)
				require.NoError(t, err)
				for i, u := range []symcache.Update{updates[1], got} {
					assert.False(t, u.Table.Loaded()[0].IsLocated)
					assert.Equal(t, core.Base(), u.Table.Loaded()[0].Base())
					if wrong == 0 {
						require.NoError(t, u.Degraded)
					} else {
						require.ErrorIs(t, u.Degraded, ErrMislocated)
						assert.NotContains(t, u.Degraded.Error(), strconv.FormatUint(base, 16))
					}
					assert.Equal(t, int64(wrong*(1-i)), u.Changes.Counts.Mislocated, "it is counted once")
				}
			})
		}
	}
}

// TestContract_10_5_NotLocated verifies that the error has the reasons of both, that the locator is asked again, and that it is not
// asked where the list can be read.
func TestContract_10_5_NotLocated(t *testing.T) {
	root := t.TempDir()
	reason := errors.New("no pack")
	locator := &fakeLocator{err: reason}
	s := NewSource(root, root, locator)
	write(t, filepath.Join(root, "kallsyms"), "0000000000000000 T _text\n")
	for n := range 3 {
		_, err := run(t, s)
		require.ErrorIs(t, err, ErrRestricted)
		require.ErrorIs(t, err, reason)
		assert.Equal(t, slices.Repeat([]string{""}, n+1), locator.asked)
	}
	write(t, filepath.Join(root, "kallsyms"), small)
	_, err := run(t, s)
	require.NoError(t, err)
	assert.Len(t, locator.asked, 3)
}

// TestHidden verifies which errors of reading the list are about a hidden one.
func TestHidden(t *testing.T) {
	for err, want := range map[error]bool{
		ErrRestricted: true, fs.ErrNotExist: true, &fs.PathError{Err: syscall.EACCES}: true, &fs.PathError{Err: syscall.EPERM}: true,
		ErrNoText: false, ErrSyntax: false, &fs.PathError{Err: syscall.EIO}: false,
	} {
		assert.Equal(t, want, IsHidden(err), err)
	}
	assert.False(t, IsHidden(nil))
}

// TestRunningKernel compares the symbols of the running kernel with its list, read by other
// code: the list has every symbol's name at the symbol's start, and every name that could be a
// symbol is found at its address.
func TestRunningKernel(t *testing.T) {
	kerneltest.NeedAddresses(t)
	got, err := run(t, NewSource("/proc", "/sys", nil))
	require.NoError(t, err)
	require.NoError(t, got.Degraded)
	core := got.Table.Loaded()[0]

	id, err := hex.DecodeString(core.BuildID())
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(id), 16)

	list := kerneltest.ReadSymbols(t)
	assert.LessOrEqual(t, core.Start, list.Stext)
	require.NotZero(t, list.Address["_einittext"])
	assert.Equal(t, list.Address["_einittext"], core.End)
	assert.Equal(t, symtab.Range{Start: list.Etext, End: list.Address["_sinittext"]}, core.Text.Gap)
	for i := range core.Len() {
		if sym := core.Text.Symbol(i); !slices.Contains(list.Names[sym.Start], core.Text.Name(sym).System) {
			t.Fatalf("%s is at %#x, where the list has %q", core.Text.Name(sym).System, sym.Start, list.Names[sym.Start])
		}
	}
	unnamed := 0
	for addr := range list.Names {
		if !list.InText(addr) {
			continue
		}
		sym := core.Lookup(addr)
		if !sym.Exists() {
			unnamed++
			continue
		}
		if sym.Start != addr {
			t.Fatalf("%q lies inside %s", list.Names[addr], core.Text.Name(sym).System)
		}
	}
	marks := core.Text.Landmarks
	assert.Equal(t, runtime.GOARCH, marks.Arch)
	assert.Equal(t, list.Address["__entry_text_start"], marks.Entry.Start)
	assert.Equal(t, list.Address["__entry_text_end"], marks.Entry.End)
	assert.Equal(t, list.Address["asm_fred_entrypoint_kernel"], marks.Fred.Start)
	assert.Equal(t, list.Address["start_kernel"], core.Lookup(list.Address["start_kernel"]+1).Start)
	t.Logf("%+v", *marks)
	t.Logf("%d symbols, %d addresses with nothing but marks and padding", core.Len(), unnamed)
}
