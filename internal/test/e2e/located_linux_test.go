// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/sys/capability"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kernelstack"
	"github.com/kernelsym/kernelsym/internal/locate"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// locatedMessage is logged when the kernel is located.
const locatedMessage = "names of the core kernel come from a pack"

// locatedCells are the rights of a collector from which the kernel hides its symbols. In a virtual machine, it hides them
// from all.
var locatedCells = []struct {
	name string
	caps []capability.Cap
}{
	{"CAP_PERFMON alone", []capability.Cap{capability.CAP_PERFMON}},
	{"all but CAP_SYSLOG", []capability.Cap{capability.CAP_PERFMON, capability.CAP_SYS_ADMIN, capability.CAP_BPF, capability.CAP_IPC_LOCK}},
	{"all", capability.ListKnown()},
}

// TestLocated verifies that a collector from which the kernel hides its symbols names the stacks of the busy kernel right,
// by a pack; that a sender on the network learns nothing; and that the place of the kernel is in nothing that it writes.
func TestLocated(t *testing.T) {
	kerneltest.Built(t, kerneltest.Collector)
	kerneltest.NeedPerf(t)
	k := readKernel(t)
	packs := t.TempDir()
	packTheCore(t, packs)
	for _, cell := range locatedCells {
		t.Run(cell.name, func(t *testing.T) {
			if kerneltest.InVM() {
				restrictPointers(t, "2")
			} else if cell.name == "all" {
				t.Skip("only a virtual machine can hide the symbols from every process: that they are hidden from root is not tested")
			}
			l := startLocated(t, packs, cell.caps)
			if runtime.GOARCH == "amd64" && kerneltest.OlderThan(t, 5, 16) && len(cell.caps) == 1 {
				l.collector.eventually("the reason", func() error { return l.hasLogged("wchan says nothing before") })
				assert.Contains(t, l.collector.Log(), locate.ErrSilent.Error())
				return
			}
			l.collector.eventually("the kernel is located", func() error { return l.hasLogged(locatedMessage) })
			l.waitForStacks()
			l.checkOracle(k)
			l.collector.stop()
			require.NoError(t, l.samplesIdleCPUs())
			l.checkNames(k)
			l.checkSecret(k)
		})
	}
}

// TestLocatedUntilTheListCanBeRead verifies that a pack is used that is made after the start, and that sampling begins again
// then; that the list wins when the kernel no longer hides it, and stays in use when it is hidden again; and that the kernel
// was where it had been located.
func TestLocatedUntilTheListCanBeRead(t *testing.T) {
	kerneltest.NeedVM(t)
	kerneltest.Built(t, kerneltest.Collector)
	k := readKernel(t)
	made, packs := t.TempDir(), t.TempDir()
	file := packTheCore(t, made).Info().BuildID + pack.Ext
	restrictPointers(t, "2")
	l := startLocated(t, packs, capability.ListKnown())
	l.collector.eventually("it samples without idle CPUs", func() error { return l.hasLogged(kernelstack.ErrIdleWork.Error()) })
	require.NoError(t, os.Link(filepath.Join(made, file), filepath.Join(packs, file)))
	l.collector.eventually("the kernel is located", func() error { return l.hasLogged(locatedMessage) })
	l.collector.eventually("idle CPUs are sampled", l.samplesIdleCPUs)
	l.checkOracle(k)
	restrictPointers(t, "1")
	l.collector.eventually("the list is read", func() error { return l.hasLogged(`"source": "kallsyms", "state": "up"`) })
	restrictPointers(t, "2")
	in := frame{Address: k.function.start + 1, Type: "kernel"}
	require.NoError(t, overGRPC(l.endpoint)(t, rewritetest.NewMessage().Profile(nil, "").Sample(in).Profiles))
	out := leafOf(t, nthMessage(l.collector, l.others, 2))
	require.NotEmpty(t, out.Lines, "what any sender may ask, if the kernel hides nothing")
	assert.Equal(t, k.function.name, out.Lines[len(out.Lines)-1].System)
	assert.Equal(t, k.relative(), out.Mapping)
}

// restrictPointers sets kernel.kptr_restrict until the test ends.
func restrictPointers(t *testing.T, value string) {
	t.Helper()
	const sysctl = "/proc/sys/kernel/kptr_restrict"
	before, err := os.ReadFile(sysctl)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(sysctl, []byte(value), 0o600))
	t.Cleanup(func() { assert.NoError(t, os.WriteFile(sysctl, before, 0o600)) })
}

// located is a collector that locates the kernel.
type located struct {
	collector      *collector
	endpoint       string // of OTLP
	stacks, others string // the files with the stacks of the kernel, and with what came by OTLP
}

func startLocated(t *testing.T, packs string, caps []capability.Cap) located {
	t.Helper()
	dir := t.TempDir()
	l := located{endpoint: freeAddress(t), stacks: filepath.Join(dir, "stacks.json"), others: filepath.Join(dir, "others.json")}
	kerneltest.Busy(t)
	start := func(cmd *exec.Cmd) error { return kerneltest.StartWith(cmd, caps...) }
	l.collector = startCollectorBy(t, start, fmt.Sprintf(`
receivers:
  kernelstack: {frequency: %s, interval: 500ms}
  otlp: {protocols: {grpc: {endpoint: %s}}}
processors: {kernelsym: {locate: true, debug_info: {directory: %s}}}
exporters:
  file/stacks: {path: %s, flush_interval: 100ms}
  file/others: {path: %s, flush_interval: 100ms}
service:
  pipelines:
    profiles/stacks: {receivers: [kernelstack], processors: [kernelsym], exporters: [file/stacks]}
    profiles/others: {receivers: [otlp], processors: [kernelsym], exporters: [file/others]}
`, hertz(), l.endpoint, packs, l.stacks, l.others), "yaml:service::telemetry::metrics::level: none")
	return l
}

func (l *located) hasLogged(text string) error {
	if !strings.Contains(l.collector.Log(), text) {
		return errors.New("it has not logged that")
	}
	return nil
}

// samplesIdleCPUs returns an error unless the receiver has found the idle loop, since the kernel was located at the latest.
func (l *located) samplesIdleCPUs() error {
	log := l.collector.Log()
	began := strings.LastIndex(log, "Sampling kernel stacks")
	if began < 0 || strings.Contains(log[began:], kernelstack.ErrIdleWork.Error()) {
		return kernelstack.ErrIdleWork
	}
	return nil
}

// waitForStacks waits for enough named messages.
func (l *located) waitForStacks() {
	l.collector.t.Helper()
	l.collector.eventually("named messages", func() error {
		named := 0
		for _, pd := range l.collector.exported(l.stacks) {
			if knowsCore(pd) {
				named++
			}
		}
		if want := kerneltest.Sized(8, 3); named < want {
			return fmt.Errorf("%d messages of %d", named, want)
		}
		return nil
	})
}

// checkOracle verifies that a sender on the network gets no name for an absolute address, and for a relative one what the
// pack says of it.
func (l *located) checkOracle(k *kernel) {
	l.collector.t.Helper()
	for n, in := range []frame{
		{Address: k.function.start + 1, Type: "kernel"}, {Address: k.function.start - k.base + 1, Type: "kernel", Mapping: k.relative()},
	} {
		require.NoError(l.collector.t, overGRPC(l.endpoint)(l.collector.t, rewritetest.NewMessage().Profile(nil, "").Sample(in).Profiles))
		out := leafOf(l.collector.t, nthMessage(l.collector, l.others, n))
		if n == 0 {
			assert.Equal(l.collector.t, frame{Type: "kernel"}, out)
		} else {
			require.NotEmpty(l.collector.t, out.Lines)
			assert.Equal(l.collector.t, k.function.name, out.Lines[len(out.Lines)-1].System)
		}
	}
}

// checkNames compares the names of frames with the list of the kernel, which the test may read.
func (l *located) checkNames(k *kernel) {
	l.collector.t.Helper()
	frames, inText, named := 0, 0, 0
	for _, pd := range exported(l.collector.t, l.stacks) {
		if !knowsCore(pd) {
			continue
		}
		for _, s := range rewritetest.Samples(pd) {
			for _, f := range s.Stack {
				frames++
				if f.Mapping == nil || f.Mapping.File != "vmlinux" {
					continue
				}
				inText++
				require.Equal(l.collector.t, k.relative(), f.Mapping)
				if len(f.Lines) > 0 {
					named++
					names, _ := k.Below(k.base + f.Address)
					require.Contains(l.collector.t, names, f.Lines[len(f.Lines)-1].System, "%x", f.Address)
				}
			}
		}
	}
	l.collector.t.Logf("%d of %d frames in core text have names; %d frames in all", named, inText, frames)
	assert.Greater(l.collector.t, inText, kerneltest.Sized(1000, 100))
	assert.GreaterOrEqual(l.collector.t, named*100, inText*99)
	assert.GreaterOrEqual(l.collector.t, inText*100, frames*95)
}

// TestLocatedByDoctor verifies that doctor locates the kernel, too, and does not print where it is.
func TestLocatedByDoctor(t *testing.T) {
	kerneltest.Built(t, kerneltest.Tool)
	kerneltest.NeedPerf(t)
	k := readKernel(t)
	packs := t.TempDir()
	packTheCore(t, packs)
	cmd := exec.CommandContext(t.Context(), kerneltest.Built(t, kerneltest.Tool), "doctor", "--locate", "--packs", packs)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, kerneltest.StartWith(cmd, capability.CAP_PERFMON, capability.CAP_SYS_ADMIN))
	_ = cmd.Wait() // its status is checked
	assert.Equal(t, 1, cmd.ProcessState.ExitCode(), out.String())
	assert.Contains(t, out.String(), "symbols of the core kernel, located in ")
	assert.Contains(t, out.String(), "source lines for 1 of ")
	assert.NotContains(t, out.String(), secretOf(k))
}

// secretOf returns the digits that all addresses of the text have in common, or nearly all.
func secretOf(k *kernel) string { return strconv.FormatUint(k.base>>24, 16) }

// checkSecret verifies that nothing that the collector wrote has an address in the kernel half.
func (l *located) checkSecret(k *kernel) {
	l.collector.t.Helper()
	base := secretOf(k)
	assert.NotContains(l.collector.t, l.collector.Log(), base)
	for _, file := range []string{l.stacks, l.others} {
		content, err := os.ReadFile(file)
		require.NoError(l.collector.t, err)
		assert.NotContains(l.collector.t, string(content), base)
		for _, pd := range exported(l.collector.t, file) {
			for _, loc := range pd.Dictionary().LocationTable().All() {
				assert.Zero(l.collector.t, loc.Address()>>63)
			}
			for _, m := range pd.Dictionary().MappingTable().All() {
				assert.Zero(l.collector.t, (m.MemoryStart()|m.MemoryLimit()|m.FileOffset())>>63)
			}
		}
	}
}
