// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/lookup"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/running"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

func TestAnnotate(t *testing.T) {
	tree := twinTree(t)
	text := "first ffffffff81000054 and ffffffffc0200044\n" +
		"ffffffff81000090 ffffffffc0300042 ffffffff81000054 main_loop+0x4/0x40\n" +
		"no end ffffffff81000054"
	const want = "first ffffffff81000054 main_loop+0x4 and ffffffffc0200044 spin+0x4 [nf_tables]\n" +
		"ffffffff81000090 core::fmt::write+0x0 ffffffffc0300042 ffffffff81000054 main_loop+0x4/0x40\n" +
		"no end ffffffff81000054 main_loop+0x4"
	run := func(stdin string, args ...string) string {
		out, errs, err := execute(t, stdin, append(append([]string{"annotate"}, tree...), args...)...)
		require.NoError(t, err, errs)
		return out
	}
	assert.Equal(t, want, run(text))
	assert.Equal(t, want, run(want), "once more changes nothing")
	assert.Empty(t, run(""))
	file := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	assert.Equal(t, want+text[:6]+want+"\n", run(text[:6], file, "-", file)+"\n")
	assert.Equal(t, "ffffffff81000090 main_loop+0x40\n", run("ffffffff81000090\n", "--caller"))
	assert.Equal(t, "\x00\xff ffffffff81000054 main_loop+0x4\x00", run("\x00\xff ffffffff81000054\x00"))

	long := strings.Repeat("ffffffff81000054 ", maxLine/17+2)
	assert.Equal(t, long+"\nffffffff81000054 main_loop+0x4", run(long+"\nffffffff81000054"), "a line that is too long")
}

// TestAnnotateElsewhere annotates the text of another machine. Nothing is read from this one.
func TestAnnotateElsewhere(t *testing.T) {
	dir, empty := t.TempDir(), t.TempDir()
	writePack(t, dir, kernelID, kernelPack(kernelID))
	out, errs, err := execute(t, "RIP: ffffffffa700005c.\nat ffffffffa700005c\nffffffffa7000042", "annotate", "--procfs", empty, "--sysfs", empty,
		"--pack", dir, "--build-id", kernelID, "--text", "ffffffffa7000000")
	require.NoError(t, err)
	assert.Empty(t, errs)
	assert.Equal(t, "RIP: ffffffffa700005c core::fmt::pick include/idle.h:31 (inlined) idle include/idle.h:5 (inlined) "+
		"main_loop+0xc init/main.c:14.\nat ffffffffa700005c main_loop+0xc\nffffffffa7000042", out)
}

func TestAnnotateErrors(t *testing.T) {
	tree := twinTree(t)
	out, errs, err := execute(t, "ffffffff81000054", append([]string{"annotate", "/nowhere/file", "-", t.TempDir()}, tree...)...)
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.Equal(t, 1, strings.Count(errs, "/nowhere/file: no such file or directory"), errs)
	assert.Contains(t, errs, "is a directory")
	assert.Equal(t, "ffffffff81000054 main_loop+0x4", out, "the others are copied")
	_, _, err = execute(t, "", "annotate", "--text", "ffffffff81000000")
	require.ErrorIs(t, err, errUsage)
}

// TestAnnotateStreams verifies that a line is written as soon as it is read.
func TestAnnotateStreams(t *testing.T) {
	in, write := io.Pipe()
	read, out := io.Pipe()
	cmd := newCommand()
	cmd.SetArgs(append([]string{"annotate"}, twinTree(t)...))
	cmd.SetIn(in)
	cmd.SetOut(out)
	cmd.SetErr(io.Discard)
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(t.Context()) }()
	for i := range 3 {
		fmt.Fprintf(write, "%d ffffffff81000054\n", i)
		want := fmt.Sprintf("%d ffffffff81000054 main_loop+0x4\n", i)
		got := make([]byte, len(want))
		_, err := io.ReadFull(read, got)
		require.NoError(t, err)
		assert.Equal(t, want, string(got))
	}
	require.NoError(t, write.Close())
	require.NoError(t, <-ended)
}

var errPipe = errors.New("broken pipe")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errPipe }

func TestAnnotateEndsWhenNobodyReads(t *testing.T) {
	forever := io.MultiReader(strings.NewReader("a\n"), neverEnding{})
	assert.ErrorIs(t, (&annotator{resolver: &lookup.Resolver{Kernel: new(running.Kernel)}}).annotate(t.Context(), forever, failingWriter{}), errPipe)
}

type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte("x\n"), 100)), nil }

// TestAnnotateRefreshesOnceALine verifies that each line is named by the state of the kernel when
// the line is read. That state is refreshed once for each line with an address.
func TestAnnotateRefreshesOnceALine(t *testing.T) {
	const start = 0xffffffffc0200000
	refreshed := 0
	var k running.Kernel
	k.Follow(func() *timeline.Snapshot {
		refreshed++
		h := timeline.NewBuilder(recent)
		h.Load(timeline.NewFunction(timeline.OriginBPF, fmt.Sprint("f", refreshed), start, 0x40, 0))
		h.SetCertain(timeline.Forever)
		return timeline.NewSnapshot(h.Table())
	}, 0)
	var out strings.Builder
	const line = "ffffffffc0200000 ffffffffc0200004 ffffffffc0300000\n"
	require.NoError(t, (&annotator{resolver: &lookup.Resolver{Kernel: &k}}).annotate(t.Context(), strings.NewReader(line+"nothing\n"+line), &out))
	assert.Equal(t, "ffffffffc0200000 f1+0x0 [bpf] ffffffffc0200004 f1+0x4 [bpf] ffffffffc0300000\nnothing\n"+
		"ffffffffc0200000 f2+0x0 [bpf] ffffffffc0200004 f2+0x4 [bpf] ffffffffc0300000\n", out.String())
	assert.Equal(t, 2, refreshed)
}

// atPick holds the inlined functions and lines that a pack of kernelPack adds to main_loop+0xc; atStart, to
// main_loop+0x4.
const (
	atPick  = " (core::fmt::pick include/idle.h:31 (inlined) idle include/idle.h:5 (inlined) init/main.c:14)"
	atStart = " (init/main.c:11)"
)

// annotateWithPacks annotates a text on a machine that knows nothing but packs.
func annotateWithPacks(t *testing.T, dir, text string, args ...string) (out, errs string) {
	t.Helper()
	empty := t.TempDir()
	args = append([]string{"annotate", "--procfs", empty, "--sysfs", empty, "--pack", dir}, args...)
	out, errs, err := execute(t, text, args...)
	require.NoError(t, err)
	return out, errs
}

// TestAnnotateOffsets annotates a kernel log of another machine, by packs alone.
func TestAnnotateOffsets(t *testing.T) {
	dir := t.TempDir()
	writePack(t, dir, kernelID, kernelPack(kernelID))
	for _, tt := range []struct{ text, want string }{
		{"RIP: 0010:main_loop+0xc/0x40\n", "RIP: 0010:main_loop+0xc/0x40" + atPick + "\n"},
		{"WARNING: main_loop+0xc/0x40 main_loop+0x4/0x40.", "WARNING: main_loop+0xc/0x40" + atPick + " main_loop+0x4/0x40" + atStart + "."},
		{"another size: main_loop+0xc/0x44, no such function: nothing+0x1/0x2, of a module: main_loop+0xc/0x40 [xfs]", ""},
		{"of something else: main_loop+0xc/0x40 [../kernel] main_loop+0xc/0x40 [xfs 0123] main_loop+0xc/0x40 [a b c]", ""},
		{"no size: main_loop+0xc, too far: main_loop+0x41/0x40, too large: main_loop+0x123456789/0x40", ""},
	} {
		out, errs := annotateWithPacks(t, dir, tt.text, "--build-id", kernelID)
		want := tt.want
		if want == "" {
			want = tt.text
		}
		assert.Equal(t, want, out)
		assert.NotContains(t, errs, "kallsyms", "no address needs it")
		again, _ := annotateWithPacks(t, dir, out, "--build-id", kernelID)
		assert.Equal(t, want, again, "once more changes nothing")
	}
}

// TestContract_2_7_Annotate verifies what the roles of addresses in a log mean for their names and lines.
func TestContract_2_7_Annotate(t *testing.T) {
	dir := t.TempDir()
	writePack(t, dir, kernelID, kernelPack(kernelID))
	const (
		exact, caller = " (idle include/idle.h:6 (inlined) init/main.c:14)", atPick // main_loop+0x10
		frame         = " main_loop+0x10/0x40"
		same          = " main_loop+0x4/0x40" // its line is that of the instruction before
		guess         = " ? main_loop+0x10/0x40"
	)
	for _, tt := range []struct{ flag, text, want string }{
		{"", "Call Trace:\n" + frame, "Call Trace:\n" + frame + caller},
		{"", "Call Trace:\n" + guess + "\n" + frame, "Call Trace:\n" + guess + "\n" + frame + caller},
		{"", "Call trace:\n" + frame + " (P)\n" + frame, "Call trace:\n" + frame + " (P)" + exact + "\n" + frame + caller},
		{"", frame + "\n" + same, frame + "\n" + same + atStart},
		{"", "Allocated in" + frame + " age=12", "Allocated in" + frame + " age=12"},
		{"", "after" + same + " ms", "after" + same + atStart + " ms"},
		{"", "after main_loop+0x0/0x40 ms", "after main_loop+0x0/0x40" + atStart + " ms"},
		{"--caller", frame, frame + caller},
		{"--caller", guess, guess},
		{"--caller=false", "Call Trace:\n" + frame + "\n" + guess, "Call Trace:\n" + frame + exact + "\n" + guess},
	} {
		args := []string{"--build-id", kernelID}
		if tt.flag != "" {
			args = append(args, tt.flag)
		}
		out, errs := annotateWithPacks(t, dir, tt.text, args...)
		assert.Equal(t, tt.want, out, tt.flag)
		assert.Empty(t, errs)
		again, _ := annotateWithPacks(t, dir, out, args...)
		assert.Equal(t, tt.want, again, "once more changes nothing")
	}
	out, _ := annotateWithPacks(t, dir, "Call Trace:\n 0xffffffffa7000060\n ? 0xffffffffa7000060\nat ffffffffa7000060", "--build-id", kernelID,
		"--text", "ffffffffa7000000")
	assert.Equal(t, "Call Trace:\n 0xffffffffa7000060 core::fmt::pick include/idle.h:31 (inlined) idle include/idle.h:5 (inlined) "+
		"main_loop+0x10 init/main.c:14\n ? 0xffffffffa7000060\nat ffffffffa7000060 main_loop+0x10", out)
}

// TestAnnotateTracesWithoutPacks verifies that one sentence says what packs would add to a log, and that a log without
// addresses needs no kernel.
func TestAnnotateTracesWithoutPacks(t *testing.T) {
	const log = "Call Trace:\n main_loop+0x10/0x40\n main_loop+0x4/0x40\nCall Trace:\n main_loop+0x4/0x40\n"
	empty := t.TempDir()
	run := func(text string) (out, errs string, err error) {
		return execute(t, text, "annotate", "--procfs", empty, "--sysfs", empty)
	}
	out, errs, err := run(log)
	require.NoError(t, err)
	assert.Equal(t, log, out)
	assert.Equal(t, "With --pack, frames of stack traces, such as main_loop+0x10/0x40, get source lines and inlined functions: "+
		"see `kernelsym pack --help`.\n", errs)
	out, errs, err = run("main_loop+0x10/0x40\n")
	require.NoError(t, err)
	assert.Equal(t, "main_loop+0x10/0x40\n", out)
	assert.Empty(t, errs)
}

// TestAnnotateReadsTheKernelWhenNeeded verifies that the kernel is not read for a file without addresses, and is read before
// the first line of any other input: code may change while that is written.
func TestAnnotateReadsTheKernelWhenNeeded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	begun := func(in io.Reader) bool {
		k := running.Kernel{Procfs: t.TempDir(), Sysfs: t.TempDir(), Warn: func(error) {}}
		a := annotator{resolver: &lookup.Resolver{Kernel: &k}, follower: newFollower(&k)}
		defer a.follower.stop()
		_ = a.annotate(t.Context(), in, io.Discard) // there is no kernel in the directories
		return a.follower.cache != nil
	}
	for text, want := range map[string]bool{"Call Trace:\n main_loop+0x10/0x40\n": false, "at ffffffff81000054\n": true} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		f, err := os.Open(file)
		require.NoError(t, err)
		assert.Equal(t, want, begun(f), text)
		require.NoError(t, f.Close())
	}
	assert.True(t, begun(strings.NewReader("")))
}

// TestAnnotateCaller verifies which addresses of a log --caller applies to, both for offsets in functions and for absolute
// addresses: not to those at which the CPU was.
func TestAnnotateCaller(t *testing.T) {
	dir := t.TempDir()
	writePack(t, dir, kernelID, kernelPack(kernelID))
	const exact, caller = " (idle include/idle.h:6 (inlined) init/main.c:14)", atPick // main_loop+0x10
	for _, tt := range []struct{ text, want string }{
		{" main_loop+0x10/0x40", caller},
		{" ? main_loop+0x10/0x40", " ? main_loop+0x10/0x40"},
		{"RIP: 0010:main_loop+0x10/0x40", exact},
		{"EIP: main_loop+0x10/0x40", exact},
		{"PC is at main_loop+0x10/0x40", exact},
		{"LR is at main_loop+0x10/0x40", caller},
		{"pc : main_loop+0x10/0x40", exact},
		{"lr : main_loop+0x10/0x40", caller},
		{"NIP [c000000000001234] main_loop+0x10/0x40", exact},
		{"LR [c000000000001234] main_loop+0x10/0x40", caller},
		{"--- interrupt: 300 at main_loop+0x10/0x40", exact},
		{"WARNING: CPU: 0 PID: 1 at init/main.c:14 main_loop+0x10/0x40", exact},
		{" main_loop+0x10/0x40 (P)", exact},
		{" main_loop+0x10/0x40 (C)", caller},
		{" main_loop+0x10/0x40 (PF)", caller}, // the return address in place of return_to_handler
		{" main_loop+0x10/0x40 (unreliable)", " main_loop+0x10/0x40 (unreliable)"},
		{" ffffffffa7000060", "caller"},
		{"RIP: 0010:[<ffffffffa7000060>]", "exact"},
		{"pc : [<ffffffffa7000060>]", "exact"},
		{"NIP [ffffffffa7000060]", "exact"},
		{"LR [ffffffffa7000060]", "caller"},
	} {
		out, _ := annotateWithPacks(t, dir, tt.text, "--caller", "--build-id", kernelID, "--text", "ffffffffa7000000")
		switch tt.want {
		case "exact":
			assert.Contains(t, out, "ffffffffa7000060 idle include/idle.h:6 (inlined) main_loop+0x10 init/main.c:14", tt.text)
		case "caller":
			assert.Contains(t, out, "ffffffffa7000060 core::fmt::pick include/idle.h:31 (inlined)", tt.text)
		case tt.text:
			assert.Equal(t, tt.text, out, "a guess")
		default:
			assert.Equal(t, tt.text+tt.want, out)
		}
		again, _ := annotateWithPacks(t, dir, out, "--caller", "--build-id", kernelID, "--text", "ffffffffa7000000")
		assert.Equal(t, out, again, "once more changes nothing")
	}
	const both = "pc : [<ffffffffa7000060>] lr : [<ffffffffa7000060>] pstate: 60400009"
	out, _ := annotateWithPacks(t, dir, both, "--caller", "--build-id", kernelID, "--text", "ffffffffa7000000")
	assert.Equal(t, "pc : [<ffffffffa7000060 idle include/idle.h:6 (inlined) main_loop+0x10 init/main.c:14>] "+
		"lr : [<ffffffffa7000060 core::fmt::pick include/idle.h:31 (inlined) idle include/idle.h:5 (inlined) "+
		"main_loop+0x10 init/main.c:14>] pstate: 60400009", out)
}

// TestContract_2_7_FirstByteOfTheNextFunction verifies that the return address of a call at the end of a function gets nothing
// of the next one, although arm64 prints it as offset 0 of that.
func TestContract_2_7_FirstByteOfTheNextFunction(t *testing.T) {
	dir := t.TempDir()
	w := pack.NewWriter(pack.Info{BuildID: kernelID, Name: "vmlinux", Text: 0xffffffff81000000, Stext: 0xffffffff81000000, Extent: pack.Range{End: 0x100}})
	for i, name := range []string{"last", "next"} {
		start, file := uint32(0x40+0x40*i), w.File(name+".c")
		w.Row(start, w.Node(0, w.Function(name, file, 1), 0, 0), file, 5)
		w.Symbol(symbol(start, start+0x40, name))
	}
	w.Row(0xc0, 0, 0, 0)
	writePack(t, dir, kernelID, w)
	for _, tt := range []struct{ text, want string }{
		{"Call trace:\n next+0x0/0x40 (C)", ""},
		{"Call trace:\n next+0x0/0x40", ""}, // not decided
		{"lr : next+0x0/0x40", ""},
		{"pc : next+0x0/0x40", " (next.c:5)"},
		{"Call Trace:\n last+0x40/0x40", " (last.c:5)"},
		{"Call Trace:\n last+0x0/0x40", " (last.c:5)"}, // no function has the byte before
		{"workqueue: next+0x0/0x40 hogged", " (next.c:5)"},
		{"do_exit <-next+0x0/0x40", ""},
	} {
		out, _ := annotateWithPacks(t, dir, tt.text, "--build-id", kernelID)
		assert.Equal(t, strings.Replace(tt.text, "/0x40", "/0x40"+tt.want, 1), out)
	}
	const asLast, asNext = " last+0x40 [vmlinux] 0123456789abcdef last.c:5\n", " next+0x0 [vmlinux] 0123456789abcdef next.c:5\n"
	for args, want := range map[string]string{
		"vmlinux+0x80": asNext, "next+0x0/0x40": asNext, "next+0x0": asNext,
		"--caller vmlinux+0x80": asLast, "--caller next+0x0/0x40": asLast, "--caller next+0x0": asLast,
		"last+0x40/0x40": asLast, "--caller last+0x40": asLast,
	} {
		out, _, err := lookedUp(t, append(strings.Fields(args), "--procfs", t.TempDir(), "--sysfs", t.TempDir(), "--pack", dir)...)
		require.NoError(t, err)
		assert.Equal(t, "vmlinux+0x80"+want, out, args)
	}
}

// TestContract_2_7_ArchitectureOfThePack verifies that the pack of a line decides how its trace is read, for offsets in functions
// and for addresses: riscv also writes "Call Trace:", but has interrupted frames in it.
func TestContract_2_7_ArchitectureOfThePack(t *testing.T) {
	const (
		log     = "Call Trace:\n main_loop+0x10/0x40\n main_loop+0x4/0x40\n 0xffffffffa7000060"
		bare    = "Call Trace:\n main_loop+0x10/0x40\n main_loop+0x4/0x40" + atStart + "\n 0xffffffffa7000060 main_loop+0x10"
		callers = "Call Trace:\n main_loop+0x10/0x40" + atPick + "\n main_loop+0x4/0x40" + atStart + "\n 0xffffffffa7000060 " +
			"core::fmt::pick include/idle.h:31 (inlined) idle include/idle.h:5 (inlined) main_loop+0x10 init/main.c:14"
	)
	for _, tt := range []struct{ arch, flag, want string }{
		{"amd64", "", callers}, {"riscv64", "", bare}, {"loong64", "", bare}, {"riscv64", "--caller", callers},
	} {
		dir := t.TempDir()
		writePack(t, dir, kernelID, kernelPackOf(pack.Info{BuildID: kernelID, Arch: tt.arch}))
		args := []string{"--build-id", kernelID, "--text", "ffffffffa7000000"}
		if tt.flag != "" {
			args = append(args, tt.flag)
		}
		out, _ := annotateWithPacks(t, dir, log, args...)
		assert.Equal(t, tt.want, out, tt.arch)
	}
}
