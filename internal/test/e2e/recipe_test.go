// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

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

	pd := exported(t, file)[0]
	require.NoError(t, rewritetest.CheckSent(pd), "backends take it")
	profile := pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0)
	assert.Equal(t, int64(time.Second)/999, profile.Period())
	text := pd.Dictionary().StringTable()
	assert.Equal(t, []string{"cpu", "nanoseconds"},
		[]string{text.At(int(profile.PeriodType().TypeStrindex())), text.At(int(profile.PeriodType().UnitStrindex()))})
	checkConversion(t, docs+"/recipes/perf_to_otlp.py", dir)

	inCore, named := 0, 0
	for _, s := range rewritetest.Samples(pd) {
		assert.GreaterOrEqual(t, s.Timestamps[0], uint64(profile.Time()))
		assert.Less(t, s.Timestamps[0], uint64(profile.Time())+profile.DurationNano())
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

// checkConversion verifies what the script of the recipe does with perf's output if user stacks contain garbage, and if
// perf's conversion stopped early.
func checkConversion(t *testing.T, script, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "perf.json"))
	require.NoError(t, err)
	var perf map[string]any
	require.NoError(t, json.Unmarshal(text, &perf))
	samples, ok := perf["samples"].([]any)
	require.True(t, ok)
	convert := func() (pprofile.Profiles, error) {
		changed, err := json.Marshal(perf)
		require.NoError(t, err)
		file := filepath.Join(dir, "changed.json")
		require.NoError(t, os.WriteFile(file, changed, 0o600))
		var said bytes.Buffer
		cmd := exec.CommandContext(t.Context(), script, filepath.Join(dir, "perf.data"), file)
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			return pprofile.Profiles{}, fmt.Errorf("%w: %s", err, &said)
		}
		return new(pprofile.JSONUnmarshaler).UnmarshalProfiles(out)
	}

	first, ok := samples[0].(map[string]any)
	require.True(t, ok)
	var chain []any
	for _, ip := range []string{"0xffffffffffffff80", "0xffffffff81000010", "0xfffffffffffffe00", "0x401000", "0x0", "0xffffffff81000020", "0x402000"} {
		chain = append(chain, map[string]any{"ip": ip})
	}
	first["callchain"] = chain
	pd, err := convert()
	require.NoError(t, err)
	var frames []string
	for _, f := range rewritetest.Samples(pd)[0].Stack {
		frames = append(frames, fmt.Sprintf("%s %#x", f.Type, f.Address))
	}
	assert.Equal(t, []string{"kernel 0xffffffff81000010", "native 0x401000", "native 0x402000"}, frames)

	perf["samples"] = samples[:len(samples)-1]
	_, err = convert()
	require.ErrorContains(t, err, fmt.Sprintf("perf data convert stopped early: %d of %d samples", len(samples)-1, len(samples)))
}
