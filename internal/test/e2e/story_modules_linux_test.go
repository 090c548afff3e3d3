// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

// moduleChapter is a module that ran for a while.
type moduleChapter struct {
	module   string
	from, to time.Time
}

// tellModule has a cipher module work for a while.
func (s *story) tellModule(t *testing.T, module, cipher string) moduleChapter {
	t.Helper()
	fd, err := openCipher(cipher, 16)
	if errors.Is(err, unix.ENOENT) {
		t.Skipf("the kernel does not offer this (%v): the story of two modules is not tested", err)
	}
	require.NoError(t, err)
	last := textOf(t, module) + kerneltest.ReadModuleCode(t, module).TextSize - 1
	s.waitUntil("names of "+module, last, hasName)
	c := moduleChapter{module: module, from: time.Now()}
	require.NoError(t, encrypt(fd, whileRunning(chapterTime())))
	c.to = time.Now()
	unload(t, module)
	s.waitUntil(module+" is gone", last, func(f frame) bool { return !hasName(f) })
	return c
}

// unload unloads a module, which the kernel may still be using.
func unload(t *testing.T, module string) {
	t.Helper()
	require.Eventually(t, func() bool { return kerneltest.UnloadModule(module) == nil }, otelcol.Patience, 10*time.Millisecond)
}

// loadModuleAt loads modules until one begins where another one had code. It returns that module
// and its cipher.
func loadModuleAt(t *testing.T, base, size uint64) (module, cipher string) {
	t.Helper()
	ciphers := map[string]string{
		"serpent_generic": "ecb(serpent-generic)", "twofish_generic": "ecb(twofish-generic)",
		"blowfish_generic": "ecb(blowfish-generic)", "cast5_generic": "ecb(cast5-generic)",
		"cast6_generic": "ecb(cast6-generic)",
	}
	for range 10 {
		for module, cipher := range ciphers {
			require.NoError(t, kerneltest.LoadModule(module))
			if textOf(t, module)-base < size {
				return module, cipher
			}
			unload(t, module)
		}
	}
	t.Skip("no module took the address of the other: the story of two modules is not tested")
	return "", ""
}

// TestStoryOfModules is TestStory with two modules at one address.
func TestStoryOfModules(t *testing.T) {
	kerneltest.NeedModules(t)
	kerneltest.Built(t, kerneltest.Collector)
	require.NoError(t, kerneltest.LoadModule("algif_skcipher"))
	if err := kerneltest.LoadModule("ecb"); !errors.Is(err, os.ErrNotExist) { // otherwise, it is built in
		require.NoError(t, err)
	}
	s := startStory(t, "relative")
	const first = "camellia_generic"
	require.NoError(t, kerneltest.LoadModule(first))
	base := textOf(t, first)
	a := s.tellModule(t, first, "ecb(camellia-generic)")
	second, cipher := loadModuleAt(t, base, kerneltest.ReadModuleCode(t, first).TextSize)
	b := s.tellModule(t, second, cipher)
	s.stop() // the receiver sends its samples

	inA, inB := a.check(t, s.file, second), b.check(t, s.file, first)
	t.Logf("%d samples of %s at %#x, %d of %s in its place", inA, first, base, inB, second)
	assert.Greater(t, inA, 5)
	assert.Greater(t, inB, 5)
}

// check checks all samples that were taken while a module ran, and returns how many frames lie in
// it. None may lie in the other module.
func (c moduleChapter) check(t *testing.T, file, other string) (n int) {
	t.Helper()
	module := kerneltest.ReadModuleCode(t, c.module)
	for _, pd := range exported(t, file) {
		for _, s := range rewritetest.Samples(pd) {
			for _, stamp := range s.Timestamps {
				if at := time.Unix(0, int64(stamp)); at.Before(c.from) || at.After(c.to) {
					continue
				}
				for _, f := range s.Stack {
					if f.Mapping == nil || f.Mapping.File != c.module {
						require.False(t, f.Mapping != nil && f.Mapping.File == other, "%+v in the time of %s", f, c.module)
						continue
					}
					n++
					require.Equal(t, module.BuildID, f.Mapping.BuildID)
					require.NotEmpty(t, f.Lines, "%+v", f)
					require.True(t, module.Has(f.Lines[0].System, f.Address) || module.Has(f.Lines[0].System, f.Address-1), "%+v", f)
				}
			}
		}
	}
	return n
}
