// SPDX-License-Identifier: Apache-2.0

package dwarfpack_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/dwarfpack"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kelf"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// compile runs gcc in testdata and returns the file that it makes.
func compile(t *testing.T, output string, args ...string) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil || runtime.GOOS != "linux" {
		t.Skip("no gcc that makes ELF files: the debug information that it writes is not read")
	}
	output = filepath.Join(t.TempDir(), output)
	cmd := exec.CommandContext(t.Context(), gcc, append(args, "-o", output)...)
	cmd.Dir = "testdata"
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", cmd, out)
	return output
}

// module compiles the fixture as a module.
func module(t *testing.T, args ...string) string {
	t.Helper()
	return compile(t, "inlined.ko", append([]string{"-c", "-DMODULE", "inlined.c"}, args...)...)
}

// wantFrames are the frames at the marks of the fixture: the function, and the comment on the line.
var wantFrames = map[string][][2]string{
	"mark_leaf":   {{"leaf", "in leaf"}, {"middle", "call of leaf"}, {"outer", "call of middle"}},
	"mark_middle": {{"middle", "in middle"}, {"outer", "call of middle"}},
	"mark_outer":  {{"outer", "in outer"}},
	"mark_last":   {{"last", "in last"}, {"in_exit", "call of last"}},
	"mark_exit":   {{"in_exit", "in in_exit"}},
}

// checkMarks checks a pack's frames at the marks of the fixture in a file.
func checkMarks(t *testing.T, name string) {
	t.Helper()
	f, err := kelf.Open(name)
	require.NoError(t, err)
	defer f.Close()
	table, err := f.SymbolTable()
	require.NoError(t, err)
	p := buildPack(t, name)
	found := 0
	for i := range table.Len() {
		s := table.At(i)
		want, ok := wantFrames[string(s.Name)]
		if !ok {
			continue
		}
		found++
		addr, ok := f.Address(&s)
		require.True(t, ok, "%s", s.Name)
		frames := p.Find(addr, nil)
		require.Len(t, frames, len(want), "%s: %v", s.Name, frames)
		for k, w := range want {
			file, line := place(t, w[1])
			assert.Equal(t, w[0], frames[k].Function, "%s", s.Name)
			assert.Equal(t, line, frames[k].Line, "%s: %v", s.Name, frames)
			assert.Equal(t, file, filepath.Base(frames[k].File), "%s", s.Name)
		}
	}
	assert.Equal(t, len(wantFrames), found)
}

// place returns the file and the line of the fixture that ends in a comment.
func place(t *testing.T, comment string) (file string, line uint32) {
	t.Helper()
	for _, file := range []string{"inlined.c", "inlined.h"} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		require.NoError(t, err)
		before, _, ok := strings.Cut(string(text), "// "+comment+"\n")
		if ok {
			return file, uint32(strings.Count(before, "\n") + 1)
		}
	}
	require.Fail(t, "no line", comment)
	return "", 0
}

func TestModules(t *testing.T) {
	for _, how := range []string{
		"-gdwarf-2", "-gdwarf-3 -gstrict-dwarf", "-gdwarf-4 -O0", "-gdwarf-5 -O0", "-gdwarf-4", "-gdwarf-5", "-gdwarf-5 -gdwarf64", "-gdwarf-4 -gdwarf64",
		"-gdwarf-5 -gz=zlib", "-gdwarf-4 -gz=zlib-gnu", "-gdwarf-4 -fdebug-types-section",
		"-gdwarf-5 -ffunction-sections", "-gdwarf-5 -gno-as-loc-support",
	} {
		t.Run(how, func(t *testing.T) {
			checkMarks(t, module(t, append([]string{"-O2"}, strings.Fields(how)...)...))
		})
	}
}

// The objects were compiled with -O2 -gdwarf-5 by gcc 12 for x86-64, and by clang 14 for x86-64 and
// arm64. In the last one, dwz has moved the common parts of units to a unit of its own, which has
// no code but has the line table of the first unit.
func TestCheckedInFiles(t *testing.T) {
	for _, name := range []string{"inlined.ko", "clang.ko", "clang-arm64.ko", "vmlinux.dwz"} {
		t.Run(name, func(t *testing.T) { checkMarks(t, filepath.Join("testdata", name)) })
	}
}

// Distributions split debug information from the code in two ways, which leave the sections of code
// and data without contents.
func TestFilesOfDebugInformationAlone(t *testing.T) {
	for _, tool := range [][]string{
		{"objcopy", "--only-keep-debug", "testdata/inlined.ko", "debug.ko"},                                  // Debian, SUSE
		{"eu-strip", "--reloc-debug-sections", "-f", "debug.ko", "-o", "stripped.ko", "testdata/inlined.ko"}, // Fedora
	} {
		t.Run(tool[0], func(t *testing.T) {
			program, err := exec.LookPath(tool[0])
			if err != nil {
				t.Skip("no " + tool[0] + ": what it makes of debug information is not read")
			}
			dir := t.TempDir()
			for i, arg := range tool {
				if filepath.Ext(arg) == ".ko" && filepath.Dir(arg) == "." {
					tool[i] = filepath.Join(dir, arg)
				}
			}
			out, err := exec.CommandContext(t.Context(), program, tool[1:]...).CombinedOutput()
			require.NoError(t, err, "%s", out)
			checkMarks(t, filepath.Join(dir, "debug.ko"))
		})
	}
}

// core links the fixture as the core kernel.
func core(t *testing.T, args ...string) string {
	t.Helper()
	return compile(t, "vmlinux", append([]string{
		"inlined.c", "other.c", "core.S", "-nostdlib", "-static", "-no-pie", "-Wl,--build-id=0xdeadbeef01234567,-e,_text,--no-warn-rwx-segments",
		"-Wl,-T,core.ld",
	}, args...)...)
}

func TestCore(t *testing.T) {
	for _, how := range []string{"-gdwarf-4", "-gdwarf-5", "-gdwarf-5 -flto", "-gdwarf-4 -flto", "-gdwarf-5 -gdwarf64"} {
		t.Run(how, func(t *testing.T) { checkMarks(t, core(t, append(strings.Fields(how), "-O2")...)) })
	}
}

// Code that is dropped after a module is loaded has no rows, although it has the addresses of other
// code in the file.
func TestInitTextOfModulesIsLeftOut(t *testing.T) {
	p := buildPack(t, "testdata/inlined.ko")
	known := 0
	for addr := range p.Info().Extent.End + 64 {
		for _, frame := range p.Find(addr, nil) {
			known++
			assert.NotEqual(t, "in_init", frame.Function)
		}
	}
	assert.NotZero(t, known)
}

func TestUnsupportedFormsAreNamed(t *testing.T) {
	for _, test := range []struct {
		how  string
		want error
		text string
	}{
		{"-g0", dwarfpack.ErrNoDebugInfo, ".debug_info"},
		{"-gdwarf-5 -gsplit-dwarf", dwarfpack.ErrUnsupported, "split DWARF"},
		{"-gdwarf-4 -gsplit-dwarf", dwarfpack.ErrUnsupported, "split DWARF"},
		{"-gdwarf-5 -fdebug-types-section", errors.ErrUnsupported, "several sections .debug_info"},
	} {
		name := module(t, strings.Fields(test.how)...)
		f, err := kelf.Open(name)
		require.NoError(t, err)
		_, err = dwarfpack.Build(f, pack.NewWriter(f.Info()), nil)
		require.ErrorIs(t, err, test.want, test.how)
		require.ErrorContains(t, err, test.text)
		require.ErrorContains(t, err, name)
		require.NoError(t, f.Close())
	}
}

// The object was compiled by clang 14 with -gdwarf-4.
func TestUnsupportedRelocationsAreNamed(t *testing.T) {
	f, err := kelf.Open("testdata/clang-s390x.ko")
	require.NoError(t, err)
	defer f.Close()
	_, err = dwarfpack.Build(f, pack.NewWriter(f.Info()), nil)
	require.ErrorIs(t, err, kelf.ErrRelocation)
	require.ErrorContains(t, err, "section .rela.debug_")
	assert.ErrorContains(t, err, "type 22 of EM_S390")
}

func TestProgress(t *testing.T) {
	f, err := kelf.Open("testdata/inlined.ko")
	require.NoError(t, err)
	defer f.Close()
	var last, total int64
	w := pack.NewWriter(f.Info())
	hasLines, err := dwarfpack.Build(f, w, func(done, all int64) {
		assert.GreaterOrEqual(t, done, last)
		last, total = done, all
	})
	require.NoError(t, err)
	assert.Equal(t, total, last)
	info, err := f.Debug("info")
	require.NoError(t, err)
	assert.EqualValues(t, info.Size(), total)
	assert.True(t, hasLines)
	data, err := w.Bytes()
	require.NoError(t, err)
	again := packOf(t, "testdata/inlined.ko")
	assert.True(t, bytes.Equal(data, again), "the same file makes the same pack")
}
