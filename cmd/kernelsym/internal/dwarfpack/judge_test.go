// SPDX-License-Identifier: Apache-2.0

package dwarfpack_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kelf"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// debugRootEnv names a directory into which a distribution's package of debug information was
// unpacked. Several directories are separated as in PATH.
const debugRootEnv = "KERNELSYM_DEBUG_ROOT"

// debugRoots returns the directories to read kernels from.
func debugRoots(t *testing.T) []string {
	t.Helper()
	roots := filepath.SplitList(os.Getenv(debugRootEnv))
	if len(roots) == 0 {
		t.Skipf("%s names no directory with a kernel's debug information", debugRootEnv)
	}
	return roots
}

// tool returns the path of a judge, which is part of a Debian package.
func tool(t *testing.T, name, debianPackage string) string {
	t.Helper()
	file, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s: install Debian's package %s", name, debianPackage)
	}
	return file
}

// find returns the files below root that match a pattern and have debug information.
func find(t *testing.T, root, pattern string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if ok, _ := path.Match(pattern, filepath.Base(name)); ok && err == nil && d.Type().IsRegular() && hasDebugInfo(name) {
			files = append(files, name)
		}
		return err
	})
	require.NoError(t, err)
	return files
}

// hasDebugInfo reports whether a file belongs to a kernel and has debug information.
func hasDebugInfo(name string) bool {
	f, err := kelf.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Debug("info")
	return err == nil && info.Size() > 0
}

func TestVmlinuxAgainstLLVM(t *testing.T) {
	for _, root := range debugRoots(t) {
		for _, name := range find(t, root, "vmlinux*") {
			t.Run(filepath.Base(name), func(t *testing.T) { judgeVmlinux(t, name) })
		}
	}
}

// judgeVmlinux compares 20,000 random addresses, and every seventh start of a row.
func judgeVmlinux(t *testing.T, name string) {
	const random, step = 20000, 7
	p := buildPack(t, name)
	info := p.Info()
	var addrs []uint32
	i := 0
	for r := range p.Rows() {
		if i++; i%step == 0 {
			addrs = append(addrs, r.Start)
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range random {
		if addr := rnd.Uint32N(info.Extent.End); !info.Gap.Contains(addr) {
			addrs = append(addrs, addr)
		}
	}
	base := info.Stext
	if info.Text != 0 {
		base = min(base, info.Text)
	}
	cmd := exec.CommandContext(t.Context(), tool(t, "llvm-symbolizer", "llvm"), "--obj="+name,
		"--inlines", "--functions=linkage", "--output-style=JSON")
	answers := ask(t, cmd, len(addrs), func(i int) string { return fmt.Sprintf("%#x", base+uint64(addrs[i])) })
	d := differences{names: map[string]int{}, aliases: aliases(t, name)}
	for _, addr := range addrs {
		require.True(t, answers.Scan(), "llvm-symbolizer ended early: %v", answers.Err())
		d.compare(fmt.Sprintf("%#x", addr), p.Find(addr, nil), llvmFrames(t, answers.Bytes()), true)
	}
	d.report(t, "llvm-symbolizer")
}

// llvmFrames returns the frames in a line of llvm-symbolizer's output.
func llvmFrames(t *testing.T, line []byte) (frames []frame) {
	var answer struct {
		Symbol []struct {
			FunctionName, FileName, StartFileName string
			Line                                  uint32
		}
	}
	require.NoError(t, json.Unmarshal(line, &answer), "%s", line)
	for _, s := range answer.Symbol {
		frames = append(frames, frame{s.FunctionName, s.FileName, s.Line, s.StartFileName != ""})
	}
	return frames
}

// ask starts a judge, writes n questions to it, and returns its answers, line by line.
func ask(t *testing.T, cmd *exec.Cmd, n int, question func(int) string) *bufio.Scanner {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	written := make(chan error, 1)
	go func() {
		w := bufio.NewWriter(stdin)
		for i := range n {
			fmt.Fprintln(w, question(i))
		}
		err := w.Flush()
		stdin.Close()
		written <- err
	}()
	t.Cleanup(func() { // the context of the test has ended, and with it the judge
		_, _ = io.Copy(io.Discard, stdout)
		writeErr := <-written
		if err := cmd.Wait(); t.Failed() {
			t.Logf("%s: %v, %v: %s", cmd, err, writeErr, &stderr)
		}
	})
	answers := bufio.NewScanner(stdout)
	answers.Buffer(nil, 1<<20)
	return answers
}

// buildPack makes a pack of a file's debug information and reads it.
func buildPack(t *testing.T, name string) *pack.Pack {
	t.Helper()
	data := packOf(t, name)
	p, err := pack.Read(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	return p
}
