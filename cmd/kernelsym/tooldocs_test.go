// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// readToolPage returns docs/tool.md.
func readToolPage(t *testing.T) string {
	t.Helper()
	if kerneltest.InVM() {
		t.Skip("the docs are not in the virtual machine")
	}
	page, err := os.ReadFile("../../docs/tool.md")
	require.NoError(t, err)
	return string(page)
}

// blocksOf returns the code blocks of a page in a language.
func blocksOf(page, language string) (blocks []string) {
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// pipeline returns the words of each command in a line, as a shell splits them, without comments
// and redirections.
func pipeline(line string) (commands [][]string) {
	var words []string
	token := regexp.MustCompile(`\s*(#.*|[<>]\s*\S+|(?:'[^']*'|"(?:\\.|[^"])*"|[^\s'"|<>]+)+|\|)`)
	for _, m := range token.FindAllStringSubmatch(line, -1) {
		switch word := m[1]; {
		case strings.ContainsAny(word[:1], "#<>"):
		case word == "|":
			commands, words = append(commands, words), nil
		default:
			words = append(words, strings.NewReplacer("'", "", `"`, "").Replace(word))
		}
	}
	return append(commands, words)
}

// toolArgs returns the arguments of the tool, or false if the command is not the tool.
func toolArgs(words []string) ([]string, bool) {
	if len(words) > 0 && words[0] == "sudo" {
		words = words[1:]
	}
	if len(words) == 0 || words[0] != "kernelsym" {
		return nil, false
	}
	return words[1:], true
}

func TestPipeline(t *testing.T) {
	got := pipeline(`sudo bpftrace -e 'p { f("%lx | x") }' | kernelsym lookup 'a*' "$(uname -r)" x=1 > out < in  # a | b`)
	assert.Equal(t, [][]string{
		{"sudo", "bpftrace", "-e", "p { f(%lx | x) }"}, {"kernelsym", "lookup", "a*", "$(uname -r)", "x=1"},
	}, got)
}

// assertParses verifies that the commands of the tool in a text exist, with their flags. It returns
// the number of these commands.
func assertParses(t *testing.T, text string) (n int) {
	t.Helper()
	for line := range strings.Lines(text) {
		for _, words := range pipeline(line) {
			args, ok := toolArgs(words)
			if !ok {
				continue
			}
			n++
			for i := range args {
				if strings.HasPrefix(args[i], "/host/") {
					args[i] = t.TempDir()
				}
			}
			root := newCommand()
			root.InitDefaultCompletionCmd()
			cmd, rest, err := root.Find(args)
			require.NoError(t, err, line)
			require.NotEqual(t, root, cmd, line)
			require.NoError(t, cmd.ParseFlags(rest), line)
			assert.NoError(t, cmd.ValidateArgs(cmd.Flags().Args()), line)
		}
	}
	return n
}

// TestToolPageHasEveryCommand verifies that each command has its section and its row, and that the
// commands on the page and in the help parse.
func TestToolPageHasEveryCommand(t *testing.T) {
	page := readToolPage(t)
	everyCommand(t, func(t *testing.T, cmd *cobra.Command) {
		assert.Equal(t, cmd.Example != "", assertParses(t, cmd.Example) > 0)
		if cmd.Hidden {
			return
		}
		assert.Contains(t, page, "\n## "+cmd.Name()+"\n")
		assert.Contains(t, page, "\n| ["+cmd.Name()+"](#"+cmd.Name()+") | ")
	})
	parsed := 0
	for _, block := range blocksOf(page, "sh") {
		parsed += assertParses(t, block)
	}
	assert.Greater(t, parsed, 7)
}

// pageMachine returns the flags for the machine of the page, and makes its files in the current
// directory of the test.
func pageMachine(t *testing.T) []string {
	t.Helper()
	const buildID, nfID = "7f76f39faf07f34cfa9fadd801e131bfa8cb6dc3", "0f1e2d3c4b5a69788796a5b4c3d2e1f000112233"
	tree := kernelTree(t, `ffffffff81000000 T _text
ffffffff81000000 T startup_64
ffffffff81445480 T vfs_read
ffffffff814457f0 T vfs_readv
ffffffff81445a00 T ksys_read
ffffffff81445ae0 T ksys_write
ffffffff81e00000 T _etext
ffffffffc0200000 t nft_do_chain	[nf_tables]
ffffffffc0200700 t nft_trace	[nf_tables]
`)
	for name, content := range map[string]string{
		"proc/modules":                                  "nf_tables 4096 0 - Live 0xffffffffc0200000\n",
		"sys/module/nf_tables/coresize":                 "4096\n",
		"sys/module/nf_tables/sections/.text":           "0xffffffffc0200000\n",
		"sys/module/nf_tables/notes/.note.gnu.build-id": string(note(t, nfID)),
		"sys/kernel/notes":                              string(note(t, buildID)),
	} {
		file := filepath.Join(filepath.Dir(tree[1]), name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	}
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{
		"stack": "[<0>] vfs_read+0xbb/0x370\n[<0>] ksys_read+0x66/0xe0\n",
		"crash.txt": "called from ffffffff81445680 with 3 pages\n[<ffffffffc0200004>] nft_do_chain+0x4/0x700 [nf_tables]\n" +
			"RBX: ffff888100a3c000 RIP: ffffffffc0200004\n",
		"elsewhere.txt": "RIP: ffffffff8c245680\n",
		"oops.txt":      "CPU: 0 UID: 0 PID: 17 Comm: cat Not tainted 6.12.90 #1 " + buildID + "\nRIP: 0010:vfs_read+0x200/0x370\nCall Trace:\n <TASK>\n vfs_read+0xbb/0x370\n",
	} {
		require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	}
	require.NoError(t, os.Mkdir("packs", 0o700))
	writePack(t, "packs", buildID, pagePack(buildID))
	return tree
}

// pagePack returns the pack of the page's core kernel.
func pagePack(buildID string) *pack.Writer {
	w := pack.NewWriter(pack.Info{
		BuildID: buildID, Name: "vmlinux", Text: 0xffffffff81000000, Stext: 0xffffffff81000000, Extent: pack.Range{End: 0xe00000},
	})
	c, h := w.File("fs/read_write.c"), w.File("include/linux/fs.h")
	read := w.Node(0, w.Function("vfs_read", c, 552), 0, 0)
	sync := w.Node(read, w.Function("new_sync_read", c, 475), c, 569)
	kiocb := w.Node(sync, w.Function("init_sync_kiocb", h, 2390), c, 484)
	w.Row(0x445480, read, c, 553)
	w.Row(0x4455f1, sync, c, 480)
	w.Row(0x445680, kiocb, h, 2395)
	w.Row(0x445690, sync, c, 485)
	w.Row(0x44573b, read, c, 570)
	w.Row(0x445773, sync, c, 490)
	w.Row(0x4457c7, read, c, 575)
	w.Row(0x4457f0, 0, 0, 0)
	w.Symbol(symbol(0x445480, 0x4457f0, "vfs_read"))
	return w
}

// TestToolPage runs the commands that the page shows with output, on the machine of the page.
func TestToolPage(t *testing.T) {
	page := readToolPage(t)
	tree := pageMachine(t)
	ran := 0
	for _, block := range blocksOf(page, "console") {
		for _, example := range strings.Split("\n"+block, "\n$ ")[1:] {
			line, want, _ := strings.Cut(example, "\n")
			commands := pipeline(line)
			stdin := ""
			if len(commands) == 2 {
				require.Equal(t, "cat", commands[0][0], line)
				text, err := os.ReadFile(commands[0][1])
				require.NoError(t, err)
				stdin = string(text)
			}
			args, ok := toolArgs(commands[len(commands)-1])
			require.True(t, ok, line)
			out, errs, err := execute(t, stdin, append(args, tree...)...)
			require.NoError(t, err, "%s: %s", line, errs)
			assert.Equal(t, strings.TrimSuffix(want, "\n"), strings.TrimSuffix(out, "\n"), line)
			ran++
		}
	}
	assert.Greater(t, ran, 8)
}
