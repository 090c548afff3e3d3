// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.uber.org/goleak"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/lookup"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// toolEnv makes the test binary run as the tool, with these arguments.
const toolEnv = "KERNELSYM_TEST_TOOL"

func TestMain(m *testing.M) {
	if line, ok := os.LookupEnv(toolEnv); ok {
		os.Args = append(os.Args[:1], strings.Fields(line)...)
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// execute runs a command line and returns its output.
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

// TestUsageErrors verifies the exit status of each wrong command line, and that the error is
// printed once.
func TestUsageErrors(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	for line, want := range map[string]string{
		"doctr":                       `unknown command "doctr"`,
		"doctr --output json":         `unknown command "doctr"`,
		"completion nosuch":           `unknown command "nosuch" for "kernelsym completion"`,
		"completion bash nosuch":      `bash takes no arguments: "nosuch"`,
		"help nosuch":                 `unknown command "nosuch"`,
		"help top nosuch":             `unknown command "top nosuch"`,
		"--color":                     "unknown flag: --color",
		"lookup --color":              "unknown flag: --color",
		"stacks extra":                `stacks takes no arguments: "extra"`,
		"watch now":                   `watch takes no arguments: "now"`,
		"version 1":                   `version takes no arguments: "1"`,
		"man":                         "give a DIRECTORY",
		"man a b":                     `man takes DIRECTORY: "b"`,
		"watch --output yaml":         `invalid argument "yaml" for "-o, --output" flag: it takes text or json`,
		"inlined":                     "give a FUNCTION",
		"inlined [":                   "syntax error in pattern",
		"inlined f -o yaml":           `invalid argument "yaml" for "-o, --output" flag: it takes text or json`,
		"top a -n -3":                 "-n is -3",
		"top a -n many":               `invalid argument "many"`,
		"view a --svg - --pprof -":    "only one of",
		"view a --svg - --folded -":   "only one of",
		"view a --folded - --pprof -": "only one of",
		"view a --svg - --http :8080": "--http has no effect",
		"view":                        "give a FILE",
		"view a --http foo":           `--http is "foo": it takes HOST:PORT, such as localhost:8081`,
		"view a --http localhost:x":   `--http is "localhost:x": it takes HOST:PORT, such as localhost:8081`,
		"view a --http :65536":        `--http is ":65536": it takes HOST:PORT, such as localhost:8081`,
		"top a -F 99":                 "--freq is about sampling this machine",
		"top a --duration 1s":         "--duration is about sampling this machine",
		"top a -o yaml":               `it takes text or json`,
		"top --duration -1s":          "--duration is -1s",
		"top --duration 10":           `it takes a time with a unit`,
		"top -F 0":                    "-F is 0: it takes 1 to 5000",
		"top -d 0":                    "-d is 0: it takes 0.1 to 3600 seconds",
		"top -d nan":                  "-d is NaN: it takes 0.1 to 3600 seconds",
		"top -C 1-0":                  `-C is "1-0": it takes an ascending list such as 0-3,5`,
		"top -e clock":                `--event is "clock"`,
		"top -C x":                    `-C is "x": it takes an ascending list such as 0-3,5`,
		"top -C 60000":                "CPU 60000 is not online",
		"top -p 4194305":              "there is no process 4194305", // PID_MAX_LIMIT is 4194304
		"top -t 4194305":              "there is no thread 4194305",
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

// TestHelpAndCompletion verifies the commands that every tool has.
func TestHelpAndCompletion(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	for line, want := range map[string]string{
		"help":                 "Usage:\n  kernelsym [command]",
		"help top":             "Usage:\n  kernelsym top",
		"help completion bash": "kernelsym completion bash",
		"completion":           "Available Commands:\n  bash",
		"completion bash":      "bash completion V2 for kernelsym",
	} {
		out, errs, err := execute(t, "", strings.Fields(line)...)
		require.NoError(t, err, line)
		assert.Contains(t, out, want, line)
		assert.Empty(t, errs, line)
	}
}

func TestVersion(t *testing.T) {
	if kerneltest.InVM() {
		t.Skip("the manifest of the collector is not in the virtual machine")
	}
	config, err := os.ReadFile("../../builder-config.yaml")
	require.NoError(t, err)
	out, _, err := execute(t, "", "--version")
	command, _, failed := execute(t, "", "version")
	require.NoError(t, failed)
	assert.Equal(t, out, command)
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

// kernelTree returns the command-line flags for a kernel with this symbol list. It does not depend
// on the running kernel.
func kernelTree(t *testing.T, list string) []string {
	t.Helper()
	kerneltest.SameInEachKernel(t)
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
			assert.True(t, isAboutBPF(warning), "BPF is that of this machine and user, not of the tree")
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
	offset := regexp.MustCompile(`[-+](0x4|50)$`) // the error names the image
	for bad, want := range map[string]error{
		"1ffffffff81000054": lookup.ErrAddress, "main_loop+": lookup.ErrAddress, "main_loop-0x4/0x40": lookup.ErrAddress, "main_loop+0x4/0x0": lookup.ErrAddress,
		"-1": lookup.ErrAddress, "0x": lookup.ErrQuery, "%": lookup.ErrQuery, "[]": path.ErrBadPattern,
		"other": lookup.ErrNoFunction, "no*": lookup.ErrNoFunction, "other+0x4": lookup.ErrNoImage, "main_loop-0x4": lookup.ErrNoImage,
		"other+0x4/0x40":                    lookup.ErrNoFunction,
		"ffffffff81000054-ffffffff81000050": lookup.ErrRange, "ffffffff81000054-ffffffff81000054": lookup.ErrRange,
		"ffffffff81000054-50": lookup.ErrNoImage,
	} {
		out, errs, err := execute(t, bad+" ffffffff81000054", append([]string{"lookup"}, tree...)...)
		require.ErrorIs(t, err, want, bad)
		assert.Equal(t, 1, strings.Count(errs, "Error:"), errs)
		assert.Contains(t, errs, offset.ReplaceAllString(bad, ""))
		assert.Equal(t, "ffffffff81000054 main_loop+0x4 [vmlinux] abcd\n", out, "the others are answered")
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

// TestLookupRunningKernel looks up the first address of every hundredth function.
func TestLookupRunningKernel(t *testing.T) {
	kerneltest.SameInEachKernel(t)
	kerneltest.NeedAddresses(t)
	names := kerneltest.ReadSymbols(t).Names
	var stdin strings.Builder
	n := 0
	for addr := range names {
		if strings.HasPrefix(names[addr][0], "_R") {
			continue // a Rust function, whose name is printed in another form
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

func kernelFrame(name string) rewritetest.Frame {
	f := rewritetest.Frame{Address: 0x10, Type: "kernel", Mapping: &rewritetest.Mapping{File: "vmlinux", Limit: 0x1000}}
	if name != "" {
		f.Lines = []rewritetest.Line{{Name: name, System: name}}
	}
	return f
}

// message returns a message of four samples over a second. Three of them are in the kernel.
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

  SELF  SELF%  TOTAL  TOTAL%  FUNCTION
     4  66.7%      4   66.7%  a [vmlinux]
     2  33.3%      4   66.7%  b [vmlinux]
     0   0.0%      2   33.3%  [no name] [vmlinux]
`},
		{"cumulative", []string{"--cum", "-n", "2"}, `
6 of 8 samples in the kernel, over 2s; 83.3 % of 12 kernel frames have a name

  SELF  SELF%  TOTAL  TOTAL%  FUNCTION
     4  66.7%      4   66.7%  a [vmlinux]
     2  33.3%      4   66.7%  b [vmlinux]
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

// TestFilesOfSeveralTypes verifies that profiles with values of another type are left out and named, that --type chooses, and
// that a type which no profile has is an error.
func TestFilesOfSeveralTypes(t *testing.T) {
	waits := message()
	d := waits.Dictionary()
	d.StringTable().Append("off_cpu", "nanoseconds")
	kind := waits.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).SampleType()
	kind.SetTypeStrindex(int32(d.StringTable().Len() - 2))
	kind.SetUnitStrindex(int32(d.StringTable().Len() - 1))
	file := profileFile(t, message(), waits)
	for args, want := range map[string][2]string{
		"top":                            {"3 of 4 samples in the kernel", "Left out 1 profile with values of type off_cpu in nanoseconds. --type chooses.\n"},
		"top --type off_cpu":             {"0s of 0s of waits in the kernel", "Left out 1 profile with values of type samples in count. --type chooses.\n"},
		"top --by process":               {"4 samples of 0 processes", "Left out 1 profile with values of type off_cpu in nanoseconds. --type chooses.\n"},
		"view --folded - --type off_cpu": {"", "Left out 1 profile with values of type samples in count. --type chooses.\n"},
		"top --by process -o json":       {`"percent_of": "all samples"`, "Left out 1 profile with values of type off_cpu in nanoseconds. --type chooses.\n"},
	} {
		out, errs, err := execute(t, "", append(strings.Fields(args), file)...)
		require.NoError(t, err, args)
		assert.Contains(t, out, want[0], args)
		assert.Equal(t, want[1], errs, args)
	}
	_, errs, err := execute(t, "", "top", "--type", "cpu", file)
	require.Error(t, err)
	assert.Contains(t, errs, "no profile has values of type cpu: the files have 1 profile with values of type off_cpu in nanoseconds, "+
		"1 profile with values of type samples in count")
	_, errs, err = execute(t, "", "top", "--type", "off_cpu")
	require.Error(t, err)
	assert.Contains(t, errs, "--type is about profiles in files: it needs a FILE")
}

func TestTopWithoutKernelFrames(t *testing.T) {
	out, _, err := execute(t, "", "top", profileFile(t, rewritetest.NewMessage().Profile(nil, "").
		Sample(rewritetest.Frame{Address: 0x1000, Type: "native"}).Profiles))
	require.NoError(t, err)
	assert.Equal(t, "No kernel frames in 1 sample.\n", out)
}
