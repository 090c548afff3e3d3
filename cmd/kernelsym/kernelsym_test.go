package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.uber.org/goleak"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// toolEnv has the test binary be the tool, with these arguments.
const toolEnv = "KERNELSYM_TEST_TOOL"

func TestMain(m *testing.M) {
	if line, ok := os.LookupEnv(toolEnv); ok {
		os.Args = append(os.Args[:1], strings.Fields(line)...)
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// execute runs a command line and returns what it printed.
func execute(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := newCommand()
	var out, errs bytes.Buffer
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	err = runCommand(t.Context(), cmd, args)
	return out.String(), errs.String(), err
}

// TestUsageErrors verifies the exit status of each wrong command line, and that what is
// wrong is said, once.
func TestUsageErrors(t *testing.T) {
	for line, want := range map[string]string{
		"doctr":               `unknown command "doctr"`,
		"doctr --output json": `unknown command "doctr"`,
		"--color":             "unknown flag: --color",
		"lookup --color":      "unknown flag: --color",
		"watch now":           `unknown command "now" for "kernelsym watch"`,
		"watch --output yaml": `--output is "yaml"`,
		"inlined":             "accepts 1 arg(s), received 0",
		"inlined [":           "syntax error in pattern",
		"inlined f -o yaml":   `--output is "yaml"`,
		"top a b":             "accepts at most 1 arg(s), received 2",
		"top a -n -3":         "-n is -3",
		"top a -F 99":         "--freq is about sampling this machine",
		"top a --duration 1s": "--duration is about sampling this machine",
		"top a -o yaml":       `--output is "yaml"`,
		"top --duration -1s":  "--duration is -1s",
		"top --duration 10":   `missing unit in duration`,
		"top -F 0":            "-F is 0: it takes 1 to 100000",
		"top -d 0":            "-d is 0: it takes 0.1 to 3600 seconds",
		"top -e clock":        `--event is "clock"`,
		"top -C 1-0,x":        "it takes a list such as 0-3,5",
		"top -C 60000":        "CPU 60000 is not online",
		"top -p 4194305":      "there is no process 4194305", // PID_MAX_LIMIT is 4194304
		"top -t 4194305":      "there is no thread 4194305",
		"top a -n many":       `invalid argument "many"`,
		"view":                "accepts 1 arg(s), received 0",
	} {
		out, errs, err := execute(t, "", strings.Fields(line)...)
		require.ErrorIs(t, err, errUsage, line)
		assert.Equal(t, 64, int(errUsage))
		assert.Equal(t, 1, strings.Count(errs, want), "%s: %s", line, errs)
		assert.Empty(t, out, line)
	}
	_, _, err := execute(t, "", "top", "/nowhere")
	require.Error(t, err)
	assert.NotErrorIs(t, err, errUsage, "the command line is right")
}

func TestVersion(t *testing.T) {
	if kerneltest.InVM() {
		t.Skip("the manifest of the collector is not in the virtual machine")
	}
	config, err := os.ReadFile("../../builder-config.yaml")
	require.NoError(t, err)
	out, _, err := execute(t, "", "--version")
	require.NoError(t, err)
	assert.Equal(t, "kernelsym version "+version+"\n", out)
	assert.Contains(t, string(config), "\n  version: "+version+"\n")
}

const symbolList = `ffffffff81000000 T _text
ffffffff81000000 T startup_64
ffffffff81000040 t __pfx_main_loop
ffffffff81000050 t main_loop
ffffffff81000090 T _ZN4core3fmt5write17h0123456789abcdefE
ffffffff81000100 T _etext
`

// kernelTree returns the command line for a kernel whose symbol list is that.
func kernelTree(t *testing.T, list string) []string {
	t.Helper()
	root := t.TempDir()
	for name, content := range map[string]string{
		"proc/kallsyms":     list,
		"proc/modules":      "",
		"sys/kernel/notes":  "\x04\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00GNU\x00\xab\xcd\x00\x00",
		"sys/module/README": "",
	} {
		file := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o644))
	}
	return []string{"--procfs", root + "/proc", "--sysfs", root + "/sys"}
}

func TestLookup(t *testing.T) {
	tree := kernelTree(t, symbolList)
	run := func(stdin string, args ...string) string {
		out, errs, err := execute(t, stdin, append(append([]string{"lookup"}, tree...), args...)...)
		require.NoError(t, err)
		for warning := range strings.Lines(errs) {
			assert.Contains(t, warning, "Warning: bpf:", "BPF is that of this machine and user, not of the tree")
		}
		return out
	}
	const want = "ffffffff81000054 main_loop+0x4 [vmlinux] abcd\n" +
		"ffffffff81000042 ? [vmlinux] abcd\n" +
		"ffffffff81000090 core::fmt::write+0x0 [vmlinux] abcd\n" +
		"0000000000001234 ? (unresolved)\n"
	assert.Equal(t, want, run("", "ffffffff81000054", "0xffffffff81000042", "0XFFFFFFFF81000090", "1234"))
	assert.Equal(t, want, run("ffffffff81000054 0xffffffff81000042\n\n\tffffffff81000090\r\n1234"))
	assert.Empty(t, run(""))

	// By contract 2.3 a return address belongs to the call before it, unless only
	// padding stands there.
	assert.Equal(t, "ffffffff81000090 main_loop+0x40 [vmlinux] abcd\n", run("", "--caller", "ffffffff81000090"))
	assert.Equal(t, "ffffffff81000050 main_loop+0x0 [vmlinux] abcd\n", run("", "--caller", "ffffffff81000050"))
}

func TestLookupErrors(t *testing.T) {
	tree := kernelTree(t, symbolList)
	for _, bad := range []string{"main_loop", "0x", "-1", "1ffffffff81000054"} {
		_, _, err := execute(t, bad, append([]string{"lookup"}, tree...)...)
		require.ErrorIs(t, err, errAddress)
		require.ErrorContains(t, err, bad)
	}
	hidden := regexp.MustCompile(`(?m)^f{8}\w{8}`).ReplaceAllString(symbolList, "0000000000000000")
	_, errs, err := execute(t, "1", append([]string{"lookup"}, kernelTree(t, hidden)...)...)
	if err == nil { // this machine has BPF programs, and this user may list them
		err = errors.New(errs)
	}
	require.ErrorContains(t, err, "kernel.kptr_restrict", "without any symbol there is nothing to look up")

	require.NoError(t, os.Remove(filepath.Join(tree[3], "kernel/notes")))
	out, errs, err := execute(t, "ffffffff81000054", append([]string{"lookup"}, tree...)...)
	require.NoError(t, err)
	assert.Equal(t, "ffffffff81000054 main_loop+0x4 [vmlinux]\n", out)
	assert.Contains(t, errs, "no file ID")
}

// TestLookupRunningKernel asks for the first address of every hundredth
// function.
func TestLookupRunningKernel(t *testing.T) {
	kerneltest.NeedAddresses(t)
	names := kerneltest.ReadSymbols(t).Names
	var stdin strings.Builder
	n := 0
	for addr := range names {
		if strings.HasPrefix(names[addr][0], "_R") {
			continue // Rust's, which is printed in another form
		}
		if n++; n%100 == 0 {
			fmt.Fprintf(&stdin, "%x\n", addr)
		}
	}
	out, _, err := execute(t, stdin.String(), "lookup")
	require.NoError(t, err)
	named := 0
	for line := range strings.Lines(out) {
		var addr uint64
		var function string
		_, err := fmt.Sscanf(line, "%x %s", &addr, &function)
		require.NoError(t, err)
		if name, ok := strings.CutSuffix(function, "+0x0"); ok {
			assert.Contains(t, names[addr], name)
			named++
		}
	}
	assert.Greater(t, named, n/100/3, "the rest is padding and what lies outside text")
}

// profileFile writes a file as the file exporter does.
func profileFile(t *testing.T, messages ...pprofile.Profiles) string {
	t.Helper()
	var lines []byte
	for _, pd := range messages {
		line, err := (&pprofile.JSONMarshaler{}).MarshalProfiles(pd)
		require.NoError(t, err)
		lines = append(append(lines, line...), '\n')
	}
	name := filepath.Join(t.TempDir(), "profiles.json")
	require.NoError(t, os.WriteFile(name, lines, 0o644))
	return name
}

func kernelFrame(name string) rewritetest.Frame {
	f := rewritetest.Frame{Address: 0x10, Type: "kernel", Mapping: &rewritetest.Mapping{File: "vmlinux", Limit: 0x1000}}
	if name != "" {
		f.Lines = []rewritetest.Line{{Name: name, System: name}}
	}
	return f
}

// message returns one of four samples over a second, three of them in the
// kernel.
func message() pprofile.Profiles {
	user := rewritetest.Frame{Address: 0x1000, Type: "native"}
	a, b, unnamed := kernelFrame("a"), kernelFrame("b"), kernelFrame("")
	pd := rewritetest.NewMessage().Profile(nil, "").
		Sample(a, b, b, user).Sample(b, user).Sample(a, unnamed).Sample(user).Profiles
	p := pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0)
	p.SetTime(5e9)
	p.SetDurationNano(1e9)
	return pd
}

func TestTop(t *testing.T) {
	second := message()
	p := second.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0)
	p.SetTime(6e9)
	for _, s := range p.Samples().All() { // as the receiver "kernelstack" has them
		s.Values().FromRaw(nil)
		s.TimestampsUnixNano().Append(6e9)
	}
	file := profileFile(t, message(), second)
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"flat", nil, `
6 of 8 samples in the kernel, over 2s; 83.3 % of 12 kernel frames have a name

  flat  flat%  cum   cum%  function
     4  66.7%    4  66.7%  a [vmlinux]
     2  33.3%    4  66.7%  b [vmlinux]
     0   0.0%    2  33.3%  [no name] [vmlinux]
`},
		{"cumulative", []string{"--cum", "-n", "2"}, `
6 of 8 samples in the kernel, over 2s; 83.3 % of 12 kernel frames have a name

  flat  flat%  cum   cum%  function
     4  66.7%    4  66.7%  a [vmlinux]
     2  33.3%    4  66.7%  b [vmlinux]
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, errs, err := execute(t, "", append([]string{"top", file}, tt.args...)...)
			require.NoError(t, err)
			assert.Equal(t, tt.want[1:], out)
			assert.Empty(t, errs)
		})
	}
}

func TestTopWithoutKernelFrames(t *testing.T) {
	out, _, err := execute(t, "", "top", profileFile(t, rewritetest.NewMessage().Profile(nil, "").
		Sample(rewritetest.Frame{Address: 0x1000, Type: "native"}).Profiles))
	require.NoError(t, err)
	assert.Equal(t, "No kernel frames in 1 samples.\n", out)
}

// TestTopOfAFileThatIsCutOff shows what is there: the collector may be writing
// the rest just now.
func TestTopOfAFileThatIsCutOff(t *testing.T) {
	file := profileFile(t, message(), message())
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(file, info.Size()-20))
	out, errs, err := execute(t, "", "top", file)
	require.NoError(t, err)
	assert.Contains(t, out, "3 of 4 samples")
	assert.Contains(t, errs, "ends in the middle of a message")
}

// cutOff returns a file that ends in its first message.
func cutOff(t *testing.T) string {
	t.Helper()
	file := profileFile(t, message())
	require.NoError(t, os.Truncate(file, 100))
	return file
}

// TestBeforeMakeRun verifies that it says how to make the file of `make run`.
func TestBeforeMakeRun(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, command := range []string{"top", "view"} {
		_, _, err := execute(t, "", command, "build/run/profiles.json")
		assert.ErrorContains(t, err, "no such file or directory: run `make run` first")
	}
}

func TestViewWhereThePortIsTaken(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	address := listener.Addr().String()
	_, _, err = execute(t, "", "view", profileFile(t, message()), "--http", address)
	require.ErrorContains(t, err, address+" is in use: choose another address with --http")
	assert.NotErrorIs(t, err, errUsage)
}

func TestFileErrors(t *testing.T) {
	damaged := message()
	damaged.Dictionary().StackTable().At(1).LocationIndices().SetAt(0, 1000)
	for name, tt := range map[string]struct{ file, want string }{
		"no file":        {filepath.Join(t.TempDir(), "none"), "no such file"},
		"damaged":        {profileFile(t, damaged), "message 1: message refers to an entry that it does not have"},
		"no profiles":    {profileFile(t), "there are no samples in it"},
		"no message yet": {cutOff(t), "holds no complete message yet"},
		"not a profile":  {filepath.Join(kernelTree(t, "text")[1], "kallsyms"), "not a file of profiles"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := execute(t, "", "view", tt.file)
			require.ErrorContains(t, err, tt.want)
			assert.NotContains(t, err.Error(), "make run")
			if name != "no profiles" {
				_, _, err = execute(t, "", "top", tt.file)
				assert.ErrorContains(t, err, tt.want)
			}
		})
	}
}

// TestView asks the served pages for the functions, and leaves nothing behind.
func TestView(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	stderr, printed := io.Pipe()
	cmd := newCommand()
	cmd.SetArgs([]string{"view", profileFile(t, message()), "--http", "localhost:0"})
	cmd.SetErr(printed)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.ExecuteContext(ctx)
		_ = printed.Close()
	}()

	line := make([]byte, 1000)
	n, err := stderr.Read(line)
	require.NoError(t, err)
	url := regexp.MustCompile(`http://\S+`).FindString(string(line[:n]))
	require.NotEmpty(t, url, "%s", line[:n])
	go func() { _, _ = io.Copy(io.Discard, stderr) }()
	for _, page := range []string{url, strings.TrimSuffix(url, "/ui/flamegraph"), strings.TrimSuffix(url, "flamegraph") + "top"} {
		body := get(t, page)
		assert.Contains(t, body, `"a"`, page)
		assert.Contains(t, body, `"b"`, page)
	}
	cancel()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("view did not end")
	}
	http.DefaultClient.CloseIdleConnections()
	for _, dir := range []string{"TMPDIR", "HOME"} {
		entries, err := os.ReadDir(os.Getenv(dir))
		require.NoError(t, err)
		for _, e := range entries {
			assert.NotContains(t, e.Name(), "kernelsym", dir)
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	return string(body)
}
