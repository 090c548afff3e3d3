// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/kmod"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// fake is a kernel with the answers that a test gives it.
type fake struct {
	record, list, receive error
	waits                 error
	hidden                error     // of the source of BPF functions alone
	started               time.Time // by the wall clock
	nameless              bool      // the kernel may have no name for its program
}

func (f fake) recordSymbols() error           { return f.record }
func (f fake) recordWaits() error             { return f.waits }
func (f fake) listPrograms() (n int, _ error) { return 3, f.list }
func (f fake) receiveEvents() error           { return f.receive }
func (f fake) clocks() (boot, offset int64)   { return int64(90 * time.Minute), f.started.UnixNano() }

// programs is the source of BPF functions of a fake.
type programs struct {
	err      error
	nameless bool
}

func (programs) Name() string { return "bpf" }

func (p programs) Run(ctx context.Context, publish func(symcache.Update)) error {
	function := timeline.NewFunction(timeline.OriginBPF, "bpf_prog_0123456789abcdef_x", 0xffffffffc0000000, 64, 0)
	if p.nameless {
		function = function.WithName("", 0)
		function.MayBeNameless = true
	}
	publish(symcache.Update{Table: timeline.NewTable(function), Degraded: p.err})
	<-ctx.Done()
	return nil
}

// healthy has the files of a machine that lacks nothing.
var healthy = map[string]string{
	"proc/sys/kernel/osrelease":           "6.12.0-test\n",
	"proc/sys/kernel/kptr_restrict":       "1\n",
	"proc/sys/kernel/perf_event_paranoid": "2\n",
	"proc/version":                        "Linux version 6.12.0-test (gcc) #1 SMP\n",
	"proc/cmdline":                        "root=/dev/sda\n",
	"proc/1/cgroup":                       "0::/init.scope\n",
	"proc/self/cgroup":                    "0::/system.slice/otelcol.service\n",
	"proc/self/mountinfo":                 "22 1 8:1 / / rw,relatime - ext4 /dev/sda rw\n",
	"proc/self/status":                    "Name:\totelcol\nCapEff:\t000001ffffffffff\n",
	"proc/self/uid_map":                   "         0          0 4294967295\n",
	"proc/self/timens_offsets":            "monotonic           0         0\nboottime            0         0\n",
	"proc/kallsyms": "ffffffff81000000 T _text\nffffffff81000000 T start\nffffffff81000100 T _etext\n" +
		"ffffffffa0000000 t init\t[xfs]\n",
	"proc/modules":                       "xfs 4096 0 - Live 0xffffffffa0000000\n",
	"sys/kernel/notes":                   "\x04\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00GNU\x00\xab\xcd\x00\x00",
	"sys/kernel/security/lockdown":       "none [integrity] confidentiality\n",
	"sys/module/xfs/sections/.text":      "0xffffffffa0000000\n",
	"sys/module/xfs/notes/.note.gnu.dir": "",
}

// machineWith returns a machine with these files in place of the healthy ones. The text "-" removes
// a file. The machine does not depend on the running kernel.
func machineWith(t *testing.T, files map[string]string, k fake) *machine {
	t.Helper()
	kerneltest.SameInEachKernel(t)
	all := maps.Clone(healthy)
	maps.Copy(all, files)
	root := t.TempDir()
	for name, content := range all {
		if content == "-" {
			continue
		}
		file := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o644))
	}
	if k.started.IsZero() {
		k.started = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	}
	procfs, sysfs := root+"/proc", root+"/sys"
	return &machine{procfs: procfs, sysfs: sysfs, own: root + "/own", version: "1.2.3", kernel: k, sources: []symcache.Source{
		kallsyms.NewSource(procfs, sysfs, nil), kmod.NewSource(procfs, sysfs, 0, timeline.Limits{}), programs{errors.Join(k.record, k.list, k.hidden), k.nameless},
	}}
}

// withCapabilities returns the status of a process with these capabilities.
func withCapabilities(caps ...right) string {
	bits := uint64(0)
	for _, c := range caps {
		bits |= 1 << c
	}
	return fmt.Sprintf("CapEff:\t%016x\n", bits)
}

var (
	errPerf     = fmt.Errorf("opening a perf event on CPU 0: %w", perfring.ErrPermission)
	errPrograms = fmt.Errorf("listing BPF programs: %w", bpf.ErrPermission)
)

var errBPFHidden = fmt.Errorf("some BPF trampolines and out-of-line pages have no names: %w", kallsyms.ErrBPFHidden)

const hiddenList = "0000000000000000 T _text\n0000000000000000 T _etext\n"
