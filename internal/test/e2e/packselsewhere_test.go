// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

// The files that TestPackStacks hands out: the same stacks, named by a collector with packs
// and by one without.
const (
	fileWithPacks    = "with-packs.json"
	fileWithoutPacks = "without-packs.json"
)

// outOfVM returns the directory with the files that TestPackStacks handed out.
func outOfVM(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(kerneltest.OutEnv)
	if dir == "" {
		t.Skip("no messages of another machine: what a gateway makes of them is tested by `make test-packs` only")
	}
	return dir
}

// TestGatewayElsewhere sends messages of another machine to a gateway that has no other information
// about that machine than its build: messages as its collector named them without packs, and
// without names. It verifies that both get the names, lines and inlined functions that its
// collector gave them with packs.
func TestGatewayElsewhere(t *testing.T) {
	dir := outOfVM(t)
	file, endpoint := filepath.Join(t.TempDir(), "profiles.json"), freeAddress(t)
	c := startCollector(t, `
receivers: {otlp: {protocols: {grpc: {endpoint: "`+endpoint+`"}}}}
processors: {kernelsym: {local: false, debug_info: {directory: `+os.Getenv(kerneltest.PacksEnv)+`}}}
exporters: {file: {path: `+file+`, flush_interval: 100ms}}
service: {pipelines: {profiles: {receivers: [otlp], processors: [kernelsym], exporters: [file]}}}
`)
	client, err := otelcol.NewClient(endpoint)
	require.NoError(t, err)
	defer func() { _ = client.Close() }()
	want := exported(t, filepath.Join(dir, fileWithPacks))
	named := exported(t, filepath.Join(dir, fileWithoutPacks))
	require.Len(t, named, len(want))
	// Packs are read when they are first needed.
	c.eventually("lines", func() error {
		require.NoError(t, client.Send(t.Context(), copied(named[0])))
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, want := range []string{`"kernel/`, `"crypto/`} {
			if !bytes.Contains(content, []byte(want)) {
				return fmt.Errorf("no file %s", want)
			}
		}
		return nil
	})
	for i := range named {
		require.NoError(t, client.Send(t.Context(), copied(named[i])))
		require.NoError(t, client.Send(t.Context(), withoutNames(named[i])))
	}
	c.stop()
	got := exported(t, file)
	require.Greater(t, len(got), 2*len(want))
	got = got[len(got)-2*len(want):]
	frames, lines := 0, 0
	for i := range got {
		samples, expected := rewritetest.Samples(got[i]), rewritetest.Samples(want[i/2])
		require.Len(t, samples, len(expected))
		for k := range expected {
			require.Equal(t, expected[k].Stack, samples[k].Stack, "message %d, sample %d", i, k)
			for _, f := range expected[k].Stack {
				frames++
				lines += len(f.Lines)
			}
		}
	}
	kerneltest.Figure("gateway_frames %d frames with %d lines as on their own machine", frames, lines)
	assert.Greater(t, lines, 1000)
}

func copied(pd pprofile.Profiles) pprofile.Profiles {
	c := pprofile.NewProfiles()
	pd.CopyTo(c)
	return c
}

// withoutNames returns a copy of a message without the names of kernel code.
func withoutNames(pd pprofile.Profiles) pprofile.Profiles {
	c := copied(pd)
	for i, loc := range c.Dictionary().LocationTable().All() {
		if f := rewritetest.FrameAt(c.Dictionary(), int32(i)); f.Mapping != nil && f.Mapping.BuildID != "" {
			loc.Lines().RemoveIf(func(pprofile.Line) bool { return true })
		}
	}
	return c
}

// TestChainsElsewhere verifies the lines that a collector gave with packs against the lines of
// llvm-symbolizer, for the addresses of the core kernel.
func TestChainsElsewhere(t *testing.T) {
	dir, root := outOfVM(t), os.Getenv("KERNELSYM_DEBUG_ROOT")
	found, err := filepath.Glob(filepath.Join(root, "usr/lib/debug/boot/vmlinux-*"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	packs, aliases := kerneltest.Packs(t), readAliases(t, found[0])
	frames := make(map[uint64]frame) // by address in the ELF file
	for _, pd := range exported(t, filepath.Join(dir, fileWithPacks)) {
		for _, s := range rewritetest.Samples(pd) {
			for _, f := range s.Stack {
				if f.Mapping == nil || f.Mapping.File != pack.KernelName || len(f.Lines) == 0 {
					continue
				}
				info := packs[f.Mapping.BuildID].Info()
				frames[f.Address+min(info.Text, info.Stext)] = f
			}
		}
	}
	require.Greater(t, len(frames), 100)
	judged, mismatched, different := 0, 0, 0
	symbolize(t, found[0], frames, func(f frame, chain []symbolized) {
		judged++
		p := packs[f.Mapping.BuildID]
		known := p.Find(uint32(f.Address), nil)
		switch outermost := len(known) - 1; {
		case outermost >= 0 && known[outermost].Function != "" &&
			!pack.Agree(f.Lines[len(f.Lines)-1].System, known[outermost].Function):
			mismatched++ // so nothing of the pack is used (contract 10.1)
			assert.Len(t, f.Lines, 1)
			assert.Zero(t, f.Lines[0].Line)
		case !chainsAgree(f, chain, aliases):
			if different++; different < 10 {
				t.Logf("%+v is not %+v", f.Lines, chain)
			}
		}
	})
	kerneltest.Figure("pack_stack_chain_differences %d of %d addresses; at %d, DWARF has another name", different, judged, mismatched)
	assert.Less(t, mismatched, judged/50)
	assert.Zero(t, different)
	assert.Len(t, frames, judged)
}

// symbolized is a frame in the output of llvm-symbolizer.
type symbolized struct {
	FunctionName string
	FileName     string
	Line         int64
}

// symbolize has llvm-symbolizer look up the frames, and passes each result to judge.
func symbolize(t *testing.T, vmlinux string, frames map[uint64]frame, judge func(frame, []symbolized)) {
	t.Helper()
	program, err := exec.LookPath("llvm-symbolizer")
	if err != nil {
		t.Skip("no llvm-symbolizer (Debian: package llvm): lines of packs are not compared with its lines")
	}
	cmd := exec.CommandContext(t.Context(), program, "--obj="+vmlinux, "--inlines", "--functions=linkage",
		"--output-style=JSON")
	var in bytes.Buffer
	for addr := range frames {
		fmt.Fprintf(&in, "%#x\n", addr)
	}
	cmd.Stdin = &in
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var answer struct {
			Address string
			Symbol  []symbolized
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &answer))
		addr, err := strconv.ParseUint(answer.Address, 0, 64)
		require.NoError(t, err)
		judge(frames[addr], answer.Symbol)
	}
	require.NoError(t, lines.Err())
	require.NoError(t, cmd.Wait())
}

// aliases has the addresses of symbols by their names.
type aliases map[string][]uint64

func readAliases(t *testing.T, vmlinux string) aliases {
	t.Helper()
	f, err := elf.Open(vmlinux)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	symbols, err := f.Symbols()
	require.NoError(t, err)
	all := make(aliases)
	for _, s := range symbols {
		all[s.Name] = append(all[s.Name], s.Value)
	}
	return all
}

// are reports whether two names are those of one address, such as memcpy and __memcpy.
func (a aliases) are(name, other string) bool {
	return slices.ContainsFunc(a[name], func(address uint64) bool { return slices.Contains(a[other], address) })
}

// chainsAgree reports whether a frame has the functions and lines that llvm-symbolizer found. The
// outermost function has the kernel's symbol. If there is no function, llvm-symbolizer returns a
// symbol, which can be another one of the same address.
func chainsAgree(f frame, chain []symbolized, aliases aliases) bool {
	if len(f.Lines) != len(chain) {
		return false
	}
	for i, l := range f.Lines {
		if l.Line != chain[i].Line || i < len(chain)-1 && l.System != chain[i].FunctionName {
			return false
		}
		if l.File != "" && !bytes.HasSuffix([]byte(chain[i].FileName), []byte("/"+l.File)) {
			return false
		}
	}
	symbol, name := f.Lines[len(chain)-1].System, chain[len(chain)-1].FunctionName
	return pack.Agree(symbol, name) || aliases.are(symbol, name)
}
