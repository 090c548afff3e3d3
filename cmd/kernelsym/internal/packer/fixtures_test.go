// SPDX-License-Identifier: Apache-2.0

package packer_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kernelsym/kernelsym/internal/pack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const release = "6.12.0-test"

// The build ids of the files that the tests build.
const (
	coreID   = "00112233445566778899aabbccddeeff00112233"
	alphaID  = "0123456789abcdef"
	betaID   = "fedcba9876543210"
	betaNext = "fedcba9876543211"
)

// command runs a program, or skips the test if it is missing.
func command(t *testing.T, program string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil || runtime.GOOS != "linux" {
		t.Skipf("no %s that makes ELF files", program)
	}
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// buildCore builds a core kernel with debug information.
func buildCore(t *testing.T, to string) {
	t.Helper()
	parents(t, to)
	command(t, "gcc", "-g", "-O2", "-fno-toplevel-reorder", "-fcf-protection=none", "-nostdlib", "-static", "-no-pie",
		"-Wl,--build-id=0x"+coreID+",-e,_text,-Ttext=0x81000000", "testdata/core.c", "-o", to)
}

// buildModule builds a module with debug information.
func buildModule(t *testing.T, to, name, id string) {
	t.Helper()
	parents(t, to)
	var swapped strings.Builder // the number whose bytes are the id
	for i := len(id); i > 0; i -= 2 {
		swapped.WriteString(id[i-2 : i])
	}
	command(t, "gcc", "-c", "-g", "-O2", `-DNAME="`+name+`"`, `-DID="0x`+swapped.String()+`"`, "testdata/module.c", "-o", to)
}

func parents(t *testing.T, file string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
}

// read returns a pack of a directory.
func read(t *testing.T, dir, id string) *pack.Pack {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, id+pack.Ext))
	require.NoError(t, err)
	defer f.Close()
	stat, err := f.Stat()
	require.NoError(t, err)
	assert.Equal(t, "-rw-r--r--", stat.Mode().String())
	p, err := pack.Read(f, stat.Size())
	require.NoError(t, err)
	assert.Equal(t, id, p.Info().BuildID)
	return p
}

// files returns the names in a directory.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// chain returns the functions at the start of a symbol, the innermost first.
func chain(t *testing.T, p *pack.Pack, symbol string) (functions []string) {
	t.Helper()
	for s := range p.Symbols() {
		if s.Name != symbol {
			continue
		}
		for addr := s.Range.Start; addr < s.Range.End; addr++ {
			if frames := p.Find(addr, nil); len(frames) > len(functions) {
				functions = nil
				for _, f := range frames {
					functions = append(functions, f.Function)
				}
			}
		}
	}
	return functions
}
