// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestRecipePerf verifies the recipe "perf record to names" of docs/producers.md. It changes only
// the rate, the time, the address and the files.
func TestRecipePerf(t *testing.T) {
	if kerneltest.InVM() {
		t.Skip("neither the page nor perf is in the virtual machine")
	}
	kerneltest.Built(t, kerneltest.Collector)
	kerneltest.NeedPerf(t)
	kerneltest.NeedAddresses(t)
	for _, program := range []string{"perf", "python3", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%v: the recipe for perf is not tested", err)
		}
	}
	page, err := os.ReadFile("../../../docs/producers.md")
	require.NoError(t, err)
	_, recipe, _ := strings.Cut(string(page), "\n## Recipe: perf record to names\n")
	recipe, _, _ = strings.Cut(recipe, "\n## ")
	docs, err := filepath.Abs("../../../docs")
	require.NoError(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "named.json")
	replace := strings.NewReplacer("localhost:4318", freeAddress(t), "-F 99", "-F 999", "sleep 10", "sleep 1", "docs/recipes", docs+"/recipes",
		"{path: named.json}", "{path: "+file+", flush_interval: 100ms}")
	block := func(kind string) string {
		found := regexp.MustCompile("(?s)```" + kind + "\n(.*?)```").FindStringSubmatch(recipe)
		require.Len(t, found, 2, kind)
		return replace.Replace(found[1])
	}

	c := startCollector(t, block("yaml"))
	c.waitForSource("kallsyms")
	commands := exec.CommandContext(t.Context(), "sh", "-ec", block("sh"))
	commands.Dir = dir
	out, err := commands.CombinedOutput()
	require.NoError(t, err, "%s", out)
	c.eventually("profile", func() error {
		if len(exported(t, file)) == 0 {
			return errors.New("no message yet")
		}
		return nil
	})
	c.stop()

	inCore, named := 0, 0
	for _, s := range rewritetest.Samples(exported(t, file)[0]) {
		require.Len(t, s.Timestamps, 1)
		for _, f := range s.Stack {
			if f.Mapping == nil || f.Mapping.File != "vmlinux" {
				continue
			}
			if inCore++; len(f.Lines) > 0 {
				named++
			}
		}
	}
	t.Logf("%d of %d frames in the core kernel have names", named, inCore)
	assert.Positive(t, inCore)
	assert.GreaterOrEqual(t, named*100, inCore*99)
}
