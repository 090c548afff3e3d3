// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/flame"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// hostile is a name, and hostileLines is one where a name can have line breaks. They set the title of a terminal, and change
// the direction of writing.
const (
	hostile      = "\x1b]0;pwned\x07\x7f\u009b31m\u061c\u200e\u200f\u202e\u2066\u2069"
	hostileLines = "a" + hostile + "\r\u0085\nforged\t1\n"
)

// hostileCommand is a command line whose output has a hostile name.
type hostileCommand struct {
	args  []string
	stdin string
}

// TestControlCharacters verifies that nothing in a profile, a pack or the kernel's files, no name of a file and no answer of a
// server controls the terminal or begins a line. JSON escapes it, so that other programs get the names as they are.
func TestControlCharacters(t *testing.T) {
	cases := hostileCommands(t)
	everyCommand(t, func(t *testing.T, cmd *cobra.Command) {
		require.Contains(t, cases, cmd.Name(), "give it a hostile name to print")
		for _, c := range cases[cmd.Name()] {
			args := append([]string{cmd.Name()}, c.args...)
			stdout, stderr, _ := execute(t, c.stdin, args...)
			assertHarmless(t, stdout+stderr)
			for line := range strings.Lines(stdout + "\n" + stderr) {
				assert.False(t, strings.HasPrefix(line, "forged"), stdout+stderr)
			}
			if cmd.Flags().Lookup("output") == nil {
				continue
			}
			stdout, stderr, _ = execute(t, c.stdin, append(args, "-o", "json")...)
			assertHarmless(t, stdout+stderr)
			var decoded strings.Builder
			for decoder := json.NewDecoder(strings.NewReader(stdout)); decoder.More(); {
				var value any
				require.NoError(t, decoder.Decode(&value), stdout)
				fmt.Fprint(&decoded, value)
			}
			if decoded.Len() > 0 {
				assert.Contains(t, decoded.String(), hostile, "the name as it is")
			}
		}
	})
}

// assertHarmless verifies that a text with the hostile name has nothing that a terminal would not show.
func assertHarmless(t *testing.T, printed string) {
	t.Helper()
	assert.Contains(t, printed, "pwned")
	assert.True(t, utf8.ValidString(printed))
	assert.Equal(t, -1, strings.IndexFunc(printed, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }), "%q", printed)
}

// hostileCommands returns command lines for each command. A command that prints only its own text has none.
func hostileCommands(t *testing.T) map[string][]hostileCommand {
	t.Helper()
	message := rewritetest.NewMessage().Profile(nil, "").Sample(rewritetest.Frame{
		Address: 0x1000, Type: "kernel", Mapping: &rewritetest.Mapping{File: "module" + hostileLines},
		Lines: []rewritetest.Line{{Name: "leaf" + hostileLines, System: "leaf" + hostileLines}},
	})
	profiles := profileFile(t, message.Profiles)
	nowhere := filepath.Join(t.TempDir(), hostileLines)
	packs, tree := hostilePacks(t), hostileTree(t)
	withTree := func(args ...string) []string { return slices.Concat(args, tree) }
	pack := filepath.Join(packs, kernelID+".kspack")
	return map[string][]hostileCommand{
		"annotate": {
			{args: []string{"--pack", pack, "--build-id", kernelID, "--text", "ffffffff81000000"}, stdin: "ffffffff81000058\n"},
			{args: withTree("--pack", pack, "--build-id", kernelID), stdin: "main_loop+0x8/0x40\n"},
			{args: withTree(), stdin: "ffffffff81000051\n"},
		},
		"doctor": {{args: withTree("--metrics", hostileServer(t))}},
		"inlined": {
			{args: []string{"--pack", packs, "*"}},
			{args: []string{"--pack", packs, hostile}},
		},
		"list": {{args: withTree("--kind", "module")}, {args: withTree(hostile)}},
		"lookup": {
			{args: []string{"--pack", packs, "vmlinux+0x58"}},
			{args: withTree("ffffffff81000051")},
			{args: withTree("*")},
			{args: withTree(hostile)},
		},
		"man":     nil,
		"pack":    {{args: []string{"--info", pack}}, {args: []string{nowhere, "-d", filepath.Join(t.TempDir(), hostile)}}},
		"stacks":  {{args: withTree()}, {args: withTree("--pack", packs)}},
		"top":     {{args: []string{profiles}}, {args: []string{nowhere}}},
		"version": nil,
		"view": {
			{args: []string{"--folded", "-", profiles}},
			{args: []string{"--svg", "-", profiles}},
			{args: []string{"--folded", "-", hostileUnit(t)}},
			{args: []string{"--svg", nowhere + "/svg", profiles}},
		},
		"watch": nil, // it runs until an interrupt: TestWatchedNames prints its lines
	}
}

// hostilePacks returns a directory with a pack whose every name is hostile.
func hostilePacks(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	w := pack.NewWriter(pack.Info{
		BuildID: kernelID, Name: "vmlinux", Release: hostileLines, Text: 0xffffffff81000000, Stext: 0xffffffff81000000,
		Extent: pack.Range{End: 0x100},
	})
	file := w.File("init/" + hostileLines)
	loop := w.Node(0, w.Function("main_loop", file, 10), 0, 0)
	w.Row(0x50, w.Node(loop, w.Function("idle"+hostileLines, file, 3), file, 14), file, 4)
	w.Row(0x90, 0, 0, 0)
	w.Symbol(symbol(0x50, 0x90, "main_loop"))
	writePack(t, dir, kernelID, w)
	return dir
}

// hostileTree returns the flags for a kernel whose module, function and tasks have hostile names.
func hostileTree(t *testing.T) []string {
	t.Helper()
	tree := kernelTree(t, "ffffffff81000000 T _text\nffffffff81000050 t main_"+hostile+"\nffffffff81000090 t end\nffffffff81000100 T _etext\n")
	for name, content := range map[string]string{
		"proc/modules": hostile + " 4096 0 - Live 0xffffffffc0200000\n",
		"proc/10/task/10/status": "Name:\t" + hostile + "\nState:\tS (sleeping)\nTgid:\t10\nPid:\t10\n" +
			"voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n",
		"proc/10/task/10/stack":                        "[<0>] main_loop+0x10/0x40\n[<0>] f" + hostile + "+0x4/0x40 [" + hostile + "]\n",
		"sys/kernel/notes":                             string(note(t, kernelID)),
		"sys/module/" + hostile + "/coresize":          "4096\n",
		"sys/module/" + hostile + "/sections/.text":    "0xffffffffc0200000\n",
		"sys/module/" + hostile + "/notes/.note.other": hostile,
	} {
		file := filepath.Join(filepath.Dir(tree[1]), name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	}
	return tree
}

// hostileUnit returns a file of profiles without kernel frames, whose values have a hostile unit.
func hostileUnit(t *testing.T) (file string) {
	t.Helper()
	pd := rewritetest.NewMessage().Profile(nil, "").Sample(rewritetest.Frame{Address: 0x1000, Type: "native"}).Profiles
	pd.Dictionary().StringTable().Append(hostileLines)
	profile := pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0)
	profile.SampleType().SetUnitStrindex(int32(pd.Dictionary().StringTable().Len() - 1))
	return profileFile(t, pd)
}

// hostileServer returns the URL of a server that refuses every request with a hostile status.
func hostileServer(t *testing.T) (url string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1024)) // the client drops an answer that comes before its request
			_, _ = io.WriteString(conn, "HTTP/1.1 404 "+hostile+"\r\nContent-Length: 0\r\n\r\n")
			_ = conn.Close()
		}
	}()
	return "http://" + listener.Addr().String()
}

// TestCompletedNames verifies the same for the functions that a shell completes.
func TestCompletedNames(t *testing.T) {
	stdout, stderr, err := execute(t, "", append(append([]string{"__complete", "lookup"}, hostileTree(t)...), "main_")...)
	require.NoError(t, err)
	assertHarmless(t, stdout+stderr)
}

// TestWrittenFiles verifies that output is never written through a symbolic link, which another user may have
// planted.
func TestWrittenFiles(t *testing.T) {
	dir := t.TempDir()
	victim, link := filepath.Join(dir, "victim"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(victim, []byte("precious"), 0o644))
	require.NoError(t, os.Symlink(victim, link))
	_, stderr, err := execute(t, "", "view", "--svg", link, profileFile(t, message()))
	require.Error(t, err)
	assert.Contains(t, stderr, "is a symbolic link")
	got, err := os.ReadFile(victim)
	require.NoError(t, err)
	assert.Equal(t, "precious", string(got))
}

// TestViewIsForThisMachine verifies that a foreign page cannot read the flame graph through a host name that
// resolves to this machine, and what the served page may do.
func TestViewIsForThisMachine(t *testing.T) {
	url := serveView(t, profileFile(t, message()))
	for host, status := range map[string]int{
		"": http.StatusOK, "localhost": http.StatusOK, "127.0.0.1:8080": http.StatusOK, "[::1]:8080": http.StatusOK,
		"evil.example": http.StatusMisdirectedRequest, "evil.example:8080": http.StatusMisdirectedRequest,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		require.NoError(t, err)
		request.Host = host
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, status, response.StatusCode, host)
		if status == http.StatusOK {
			assert.Equal(t, "nosniff", response.Header.Get("X-Content-Type-Options"))
			assert.Equal(t, flame.ContentPolicy, response.Header.Get("Content-Security-Policy"))
		}
	}
	assert.True(t, isServed("workstation:80", "workstation:80"))
	assert.True(t, isServed("Workstation", "workstation:80"))
	assert.False(t, isServed("other", ":80"))
}
