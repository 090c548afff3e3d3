package kallsyms

import (
	"context"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/kerneltest"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// published is one call of publish.
type published struct {
	table    *symtab.Table
	degraded error
}

// run runs a source until it publishes or fails.
func run(t *testing.T, s *Source) (published, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got published
	err := s.Run(ctx, func(table *symtab.Table, degraded error) {
		got = published{table, degraded}
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
	got, err := run(t, NewSource(filepath.Join(root, "proc"), filepath.Join(root, "sys")))
	require.NoError(t, err)
	require.NoError(t, got.degraded)
	require.Len(t, got.table.Modules(), 1)
	core := got.table.Modules()[0]
	assert.Equal(t, "deadbeef", core.BuildID)
	assert.Equal(t, buildid.FileID("deadbeef"), core.FileID)
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
			got, err := run(t, NewSource(filepath.Join(root, "proc"), sysfs))
			require.NoError(t, err)
			require.ErrorContains(t, got.degraded, "no file ID")
			require.ErrorContains(t, got.degraded, sysfs)
			core := got.table.Modules()[0]
			assert.Empty(t, core.BuildID)
			assert.Empty(t, core.FileID)
			assert.NotZero(t, core.Len())
		})
	}
}

// TestContract_8_SysfsCanComeLater has it mounted an hour after the start.
func TestContract_8_SysfsCanComeLater(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "proc/kallsyms"), small)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var ids []string
		ended := make(chan error)
		go func() {
			ended <- NewSource(filepath.Join(root, "proc"), filepath.Join(root, "sys")).Run(ctx, func(table *symtab.Table, degraded error) {
				core := table.Modules()[0]
				ids = append(ids, core.BuildID)
				assert.Equal(t, core.BuildID == "", degraded != nil)
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
	_, err := run(t, NewSource(root, root))
	require.ErrorIs(t, err, fs.ErrNotExist)

	write(t, filepath.Join(root, "kallsyms"), "0000000000000000 T _text\n")
	_, err = run(t, NewSource(root, root))
	require.ErrorIs(t, err, ErrRestricted)
	assert.ErrorContains(t, err, root, "names the file")
}

// TestRunningKernel holds what is read of the running kernel against its list,
// read by other code: every symbol's name is one that the list has at its start,
// and every name that could be one is found at its address.
func TestRunningKernel(t *testing.T) {
	kerneltest.NeedAddresses(t)
	got, err := run(t, NewSource("/proc", "/sys"))
	require.NoError(t, err)
	require.NoError(t, got.degraded)
	core := got.table.Modules()[0]

	id, err := hex.DecodeString(core.BuildID)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(id), 16)

	list := kerneltest.ReadSymbols(t)
	assert.LessOrEqual(t, core.Start, list.Stext)
	assert.Equal(t, list.Etext, core.End)
	for i := range core.Len() {
		sym := core.Symbol(i)
		require.Contains(t, list.Names[sym.Start], sym.Name().System)
	}
	unnamed := 0
	for addr := range list.Names {
		if !list.InText(addr) {
			continue
		}
		sym, ok := got.table.Lookup(addr, symtab.Always)
		if !ok {
			unnamed++
			continue
		}
		require.Equal(t, addr, sym.Start, "%q lies inside %s", list.Names[addr], sym.Name().System)
	}
	t.Logf("%d symbols, %d addresses with nothing but marks and padding", core.Len(), unnamed)
}
