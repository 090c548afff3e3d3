// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/lookup"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// twinList has a module, and functions that share a name. spin has a different length in each
// image, poll the same.
const twinList = `ffffffff81000000 T _text
ffffffff81000000 T startup_64
ffffffff81000050 t main_loop
ffffffff81000050 t other_loop
ffffffff81000090 T _ZN4core3fmt5write17h0123456789abcdefE
ffffffff810000c0 t spin
ffffffff810000d0 t poll
ffffffff810000e0 t nf_tables
ffffffff81000100 T _etext
ffffffffc0200000 t nft_do	[nf_tables]
ffffffffc0200040 t spin	[nf_tables]
ffffffffc0200080 t poll	[nf_tables]
ffffffffc0200090 t end	[nf_tables]
`

// twinTree returns the command-line flags for the kernel of twinList.
func twinTree(t *testing.T) []string {
	t.Helper()
	tree := kernelTree(t, twinList)
	for name, content := range map[string]string{
		"proc/modules":                        "nf_tables 4096 0 - Live 0xffffffffc0200000\n",
		"sys/module/nf_tables/coresize":       "4096\n",
		"sys/module/nf_tables/sections/.text": "0xffffffffc0200000\n",
	} {
		file := filepath.Join(filepath.Dir(tree[1]), name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	}
	return tree
}

func TestLookupFunctions(t *testing.T) {
	tree := twinTree(t)
	const (
		loop     = "ffffffff81000050-ffffffff81000090 main_loop [vmlinux] abcd\n"
		coreSpin = "ffffffff810000c0-ffffffff810000d0 spin [vmlinux] abcd\n"
		modSpin  = "ffffffffc0200040-ffffffffc0200080 spin [nf_tables]\n"
	)
	for _, tt := range []struct{ name, args, want string }{
		{"name", "main_loop", loop},
		{"alias", "other_loop", "ffffffff81000050-ffffffff81000090 main_loop (alias other_loop) [vmlinux] abcd\n"},
		{"Rust", "core::fmt::write", "ffffffff81000090-ffffffff810000c0 core::fmt::write [vmlinux] abcd\n"},
		{"Rust symbol", "_ZN4core3fmt5write17h0123456789abcdefE", "ffffffff81000090-ffffffff810000c0 core::fmt::write [vmlinux] abcd\n"},
		{"several", "spin", coreSpin + modSpin},
		{"in a module", "spin [nf_tables]", modSpin},
		{"pattern", "*_loop", loop},
		{"pattern of two", "sp[i]?", coreSpin + modSpin},
		{"range", "ffffffff8100008f-ffffffff81000091", loop + "ffffffff81000090-ffffffff810000c0 core::fmt::write [vmlinux] abcd\n"},
		{"start and length", "0xffffffff81000050+0x40", loop},
		{"empty range", "ffffffffc0100000-ffffffffc0100010", "ffffffffc0100000-ffffffffc0100010 ? (unresolved)\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, messages, err := lookedUp(t, append(tree, strings.Fields(tt.args)...)...)
			require.NoError(t, err, messages)
			assert.Equal(t, tt.want, out)
			stdin, _, err := execute(t, tt.args, append([]string{"lookup", "-"}, tree...)...)
			require.NoError(t, err)
			assert.Equal(t, tt.want, stdin)
		})
	}
}

// TestLookupOffsets verifies that an offset in a function has an answer only if exactly one
// function matches.
func TestLookupOffsets(t *testing.T) {
	tree := twinTree(t)
	for _, tt := range []struct{ name, args, want string }{
		{"one", "main_loop+0x4", "ffffffff81000054 main_loop+0x4 [vmlinux] abcd\n"},
		{"a line of a stack", "[<0>] main_loop+0x4/0x40", "ffffffff81000054 main_loop+0x4 [vmlinux] abcd\n"},
		{"a line with a module", "[<0>] spin+0x4/0x40 [nf_tables]", "ffffffffc0200044 spin+0x4 [nf_tables]\n"},
		{"decided by the size", "spin+0x4/0x10", "ffffffff810000c4 spin+0x4 [vmlinux] abcd\n"},
		{"decided by the offset", "spin+0x20", "ffffffffc0200060 spin+0x20 [nf_tables]\n"},
		{"the last call does not return", "spin+0x10/0x10", "ffffffff810000d0 spin+0x10 [vmlinux] abcd\n"},
		{"in another image", "vmlinux+0x3f200044", "ffffffffc0200044 ? (unresolved)\n"},
		{"before the image", "nf_tables-0x3f1fffac", "ffffffff81000054 ? (unresolved)\n"},
		{"too long", "main_loop+0x40", "main_loop+0x40 ? (no function of that name is that long)\n"},
		{"of another build", "main_loop+0x4/0x50", "main_loop+0x4/0x50 ? (no function of that name has 0x50 bytes)\n"},
		{"too far", "main_loop+0x41/0x40", "main_loop+0x41/0x40 ? (0x41 is behind the end of a function of 0x40 bytes)\n"},
		{"ambiguous", "poll+0x4/0x10", "" +
			"poll+0x4/0x10 ? (ambiguous)\n" +
			"              ffffffff810000d4 poll+0x4 [vmlinux] abcd\n" +
			"              ffffffffc0200084 poll+0x4 [nf_tables]\n"},
		{"an image and a function", "nf_tables+0x4", "" +
			"nf_tables+0x4 ? (ambiguous)\n" +
			"              ffffffffc0200004 nft_do+0x4 [nf_tables]\n" +
			"              ffffffff810000e4 nf_tables+0x4 [vmlinux] abcd\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, messages, err := lookedUp(t, append(tree, strings.Fields(tt.args)...)...)
			require.NoError(t, err, messages)
			assert.Equal(t, tt.want, out)
			out, _, err = lookedUp(t, append(tree, tt.args)...)
			require.NoError(t, err)
			assert.Equal(t, tt.want, out, "as one argument")
		})
	}
}

func TestLookupFunctionsInPacks(t *testing.T) {
	dir := t.TempDir()
	writePack(t, dir, kernelID, kernelPack(kernelID))
	writePack(t, dir, moduleID, modulePack())
	empty := t.TempDir()
	for _, tt := range []struct{ args, want string }{
		{"main_loop", "vmlinux+0x50-vmlinux+0x90 main_loop [vmlinux] 0123456789abcdef init/main.c:11\n"},
		{"nft_do*", "" +
			"nf_tables-0x30-nf_tables+0x0 nft_do.cold [nf_tables] " + moduleID + " net/nf.c:6\n" +
			"nf_tables+0x0-nf_tables+0x40 nft_do [nf_tables] " + moduleID + " net/nf.c:5\n"},
		{"main_loop+0xc/0x40", "" +
			"vmlinux+0x5c core::fmt::pick include/idle.h:31 (inlined)\n" +
			"             idle include/idle.h:5 (inlined)\n" +
			"             main_loop+0xc [vmlinux] 0123456789abcdef init/main.c:14\n"},
		{"main_loop+0xc/0x44", "main_loop+0xc/0x44 ? (no function of that name has 0x44 bytes)\n"},
	} {
		out, messages, err := lookedUp(t, "--procfs", empty, "--sysfs", empty, "--pack", dir, tt.args)
		require.NoError(t, err, messages)
		assert.Equal(t, tt.want, out)
	}
	_, _, err := lookedUp(t, "--procfs", empty, "--sysfs", empty, "--pack", dir, "other", "other+0x4/0x10")
	require.ErrorIs(t, err, lookup.ErrNoFunction)
}

// TestLookupOffsetsWithBuilds verifies that lookup reads offsets of modules as a kernel with CONFIG_STACKTRACE_BUILD_ID prints
// them, and that the build decides.
func TestLookupOffsetsWithBuilds(t *testing.T) {
	const of, ofAnother = " [nf_tables " + moduleID + "]", " [nf_tables " + otherModuleID + "]"
	const ofNone = " [nf_tables 0000000000000000000000000000000000000000]" // as kernels print a module without an id
	dir := t.TempDir()
	writePack(t, dir, moduleID, modulePack())
	another := pack.NewWriter(pack.Info{BuildID: otherModuleID, Name: "nf_tables", Extent: pack.Range{End: 0x100}})
	addSpin(another, "nft_do", "other.c", 9)
	writePack(t, dir, otherModuleID, another)
	tree := twinTree(t)
	notes := filepath.Join(tree[3], "module/nf_tables/notes")
	require.NoError(t, os.MkdirAll(notes, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(notes, ".note.gnu.build-id"), note(t, moduleID), 0o600))
	nowhere := []string{"--procfs", t.TempDir(), "--sysfs", t.TempDir(), "--pack", dir}
	for _, tt := range []struct {
		text string
		args []string
		want string // empty if no function is found
	}{
		{"nft_do+0x4" + of, nowhere, moduleID + "+0x4 nft_do+0x4 [nf_tables] " + moduleID + " net/nf.c:5\n"},
		{"nft_do+0x4/0x40" + of, nowhere, moduleID + "+0x4 nft_do+0x4 [nf_tables] " + moduleID + " net/nf.c:5\n"},
		{"[<0>] nft_do+0x4/0x40" + ofAnother, nowhere, otherModuleID + "+0x14 nft_do+0x4 [nf_tables] " + otherModuleID + " other.c:9\n"},
		{"nft_do" + ofAnother, nowhere, otherModuleID + "+0x10-" + otherModuleID + "+0x50 nft_do [nf_tables] " + otherModuleID + " other.c:9\n"},
		{"spin+0x4" + of, tree, "ffffffffc0200044 spin+0x4 [nf_tables] " + moduleID + "\n"},
		{"spin+0x4/0x40" + of, tree, "ffffffffc0200044 spin+0x4 [nf_tables] " + moduleID + "\n"},
		{"spin+0x4/0x40" + ofAnother, tree, ""},
		{"spin+0x4/0x40" + ofNone, tree, "ffffffffc0200044 spin+0x4 [nf_tables] " + moduleID + "\n"},
		{"nft_do.cold+0x4/0x30" + ofNone, nowhere, moduleID + "-0x2c nft_do.cold+0x4 [nf_tables] " + moduleID + " net/nf.c:6\n"},
	} {
		for _, asArgument := range []bool{true, false} {
			text, args := tt.text, append([]string{"lookup"}, tt.args...)
			if asArgument {
				text, args = "", append(args, text)
			}
			out, errs, err := execute(t, text, args...)
			assert.Equal(t, tt.want, out, tt.text)
			if tt.want == "" {
				require.ErrorIs(t, err, lookup.ErrNoFunction)
			} else {
				require.NoError(t, err, errs)
			}
		}
	}
}

// assertJSONLines compares the JSON output of a command.
func assertJSONLines(t *testing.T, want, got string) {
	t.Helper()
	wanted, lines := strings.Split(strings.TrimSpace(want), "\n"), strings.Split(strings.TrimSpace(got), "\n")
	require.Len(t, lines, len(wanted), got)
	for i := range wanted {
		assert.JSONEq(t, wanted[i], lines[i])
	}
}

// TestLookupJSON verifies the fields that programs read.
func TestLookupJSON(t *testing.T) {
	dir := t.TempDir()
	writePack(t, dir, kernelID, kernelPack(kernelID))
	out, _, err := lookedUp(t, append(treeWithID(t), "-o", "json", "--pack", dir,
		"ffffffff8100005c", "vmlinux+0x90", "ffffffff81000042", "1234", "main_loop")...)
	require.NoError(t, err)
	assertJSONLines(t, `{"address":"0xffffffff8100005c","inlined":[{"function":"core::fmt::pick","file":"include/idle.h","line":31},`+
		`{"function":"idle","file":"include/idle.h","line":5}],"function":"main_loop","offset":12,`+
		`"image":"vmlinux","build_id":"0123456789abcdef","file":"init/main.c","line":14}
{"address":"vmlinux+0x90","function":"core::fmt::write","offset":0,"image":"vmlinux","build_id":"0123456789abcdef"}
{"address":"0xffffffff81000042","reason":"unresolved","image":"vmlinux","build_id":"0123456789abcdef"}
{"address":"0x0000000000001234","reason":"unresolved"}
{"address":"vmlinux+0x50","end":"vmlinux+0x90","function":"main_loop","image":"vmlinux","build_id":"0123456789abcdef","file":"init/main.c","line":11}
`, out)
	out, _, err = lookedUp(t, append(twinTree(t), "-o", "json", "poll+0x4/0x10")...)
	require.NoError(t, err)
	assertJSONLines(t, `{"address":"poll+0x4/0x10","reason":"ambiguous","candidates":[`+
		`{"address":"0xffffffff810000d4","function":"poll","offset":4,"image":"vmlinux","build_id":"abcd"},`+
		`{"address":"0xffffffffc0200084","function":"poll","offset":4,"image":"nf_tables"}]}`+"\n", out)
}

// TestLookupStacks looks up the lines of all stacks that the running kernel prints, and compares
// the functions. The kernel prints their lengths as well.
func TestLookupStacks(t *testing.T) {
	kerneltest.NeedAddresses(t)
	stacks, err := filepath.Glob("/proc/[0-9]*/stack")
	require.NoError(t, err)
	lines := make(map[string]bool)
	for _, file := range stacks {
		text, _ := os.ReadFile(file) // processes that have ended have no stack
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "/0x") && !strings.Contains(line, "bpf_") {
				lines[strings.TrimSpace(line)] = true
			}
		}
	}
	if len(lines) == 0 {
		t.Skip("this kernel or sandbox shows no stacks")
	}
	all := slices.Sorted(maps.Keys(lines))
	out, errs, err := execute(t, strings.Join(all, "\n"), "lookup", "--caller", "-o", "json")
	require.NoError(t, err, errs)
	answers := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, answers, len(all), out)
	for i, line := range all {
		var got struct {
			Function, Reason string
			Offset           int
			Candidates       []struct{ Function string }
		}
		require.NoError(t, json.Unmarshal([]byte(answers[i]), &got))
		switch function := fmt.Sprintf(" %s+%#x/", got.Function, got.Offset); {
		case got.Reason == "ambiguous":
			assert.Greater(t, len(got.Candidates), 1, line)
		case strings.HasSuffix(line, "]") && got.Function == "":
			// There is no answer beyond the certain end of a module's last function.
		default:
			assert.Contains(t, line, function)
		}
	}
}
