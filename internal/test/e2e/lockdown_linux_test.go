// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// refusals are what other agents do: the table of docs/dev/lockdown.md.
var refusals = []struct {
	what string
	from int // the first of lockdownModes that refuses it; 0 for none
	try  func(t *testing.T) error
}{
	{"perf: sample kernel stacks", 0, func(*testing.T) error { return openPerf(unix.PERF_SAMPLE_CALLCHAIN) }},
	{"BPF: take kernel stacks", 0, func(t *testing.T) error { return loadCalling(t, asm.FnGetStackid) }},
	{"BPF: read user memory", 0, func(t *testing.T) error { return loadCalling(t, asm.FnProbeReadUser) }},
	{"a signed module", 0, func(t *testing.T) error {
		t.Cleanup(func() { _ = kerneltest.UnloadModule("dummy") })
		return kerneltest.LoadModule("dummy")
	}},
	{"an unsigned module", 1, loadUnsigned},
	{"BPF: write user memory", 1, func(t *testing.T) error { return loadCalling(t, asm.FnProbeWriteUser) }},
	{"BPF: read kernel memory", 2, func(t *testing.T) error { return loadCalling(t, asm.FnProbeReadKernel) }},
	{"perf: sample kernel registers", 2, func(*testing.T) error { return openPerf(unix.PERF_SAMPLE_REGS_INTR) }},
	{"kprobes", 2, attachKprobe},
	{"tracepoints of tracefs", 2, func(*testing.T) error { return readByte("/sys/kernel/tracing/events/sched/sched_switch/id") }},
	{"/proc/kcore", 2, func(*testing.T) error { return readByte("/proc/kcore") }},
}

// lockdownModes are the modes of the kernel's lockdown. Each refuses everything that the modes
// before it refuse.
var lockdownModes = []string{"none", "integrity", "confidentiality"}

// refused reports whether a mode refuses something that is refused starting with the mode from.
func refused(from, mode int) bool { return from > 0 && mode >= from }

// TestLockdown verifies what a locked-down kernel refuses root (enum lockdown_reason in
// include/linux/security.h), and what it allows. In a kernel without lockdown, it verifies that everything
// works.
func TestLockdown(t *testing.T) {
	kerneltest.NeedVM(t)
	kerneltest.NeedBPF(t)
	if kerneltest.OlderThan(t, 6, 1) {
		t.Skip("older than Linux 6.1: what lockdown refuses is not tested")
	}
	mode := slices.Index(lockdownModes, kerneltest.Lockdown(t))
	require.GreaterOrEqual(t, mode, 0)
	for _, tt := range refusals {
		t.Run(tt.what, func(t *testing.T) {
			err := tt.try(t)
			t.Logf("lockdown=%s: %s: %v", lockdownModes[mode], tt.what, err)
			if refused(tt.from, mode) {
				assert.Error(t, err)
			} else {
				assert.NoError(t, err)
			}
		})
	}
}

// TestLockdownPage verifies that the page agrees with what TestLockdown expects.
func TestLockdownPage(t *testing.T) {
	if kerneltest.InVM() {
		t.Skip("the page is not in the virtual machine: it is compared with the code outside")
	}
	page, err := os.ReadFile("../../../docs/dev/lockdown.md")
	require.NoError(t, err)
	for _, tt := range refusals {
		row := "| " + strings.ReplaceAll(tt.what, "/proc/kcore", "`/proc/kcore`") + " |"
		for mode := range lockdownModes {
			if refused(tt.from, mode) {
				row += " refused |"
			} else {
				row += " yes |"
			}
		}
		assert.Contains(t, string(page), row)
	}
}

// openPerf opens an event that samples the kernel with the given sample type.
func openPerf(sample uint64) error {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Sample: 1_000_000, Sample_type: sample, Sample_regs_intr: 1,
	}
	attr.Size = uint32(binary.Size(attr))
	if sample != unix.PERF_SAMPLE_REGS_INTR {
		attr.Sample_regs_intr = 0
	}
	fd, err := unix.PerfEventOpen(&attr, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// loadCalling loads a BPF program of a kprobe that calls a helper, with 8 bytes of its stack
// as the first argument, or a map of stacks as the second.
func loadCalling(t *testing.T, helper asm.BuiltinFunc) error {
	t.Helper()
	stacks, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.StackTrace, KeySize: 4, ValueSize: 8 * 16, MaxEntries: 1})
	require.NoError(t, err)
	defer func() { _ = stacks.Close() }()
	insns := asm.Instructions{
		asm.Mov.Imm(asm.R0, 0), asm.StoreMem(asm.RFP, -8, asm.R0, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, -8),
		asm.Mov.Imm(asm.R2, 8),
		asm.Mov.Imm(asm.R3, 0),
	}
	switch helper {
	case asm.FnGetStackid:
		insns = asm.Instructions{asm.LoadMapPtr(asm.R2, stacks.FD()), asm.Mov.Imm(asm.R3, 0)}
	case asm.FnProbeWriteUser:
		insns = append(insns,
			asm.Mov.Reg(asm.R2, asm.R1), asm.Mov.Imm(asm.R1, 0), asm.Mov.Imm(asm.R3, 8))
	}
	return loadKprobe(t, append(insns, helper.Call(), asm.Mov.Imm(asm.R0, 0), asm.Return()))
}

// loadKprobe loads a BPF program unchanged. cilium/ebpf would replace bpf_probe_read_user with
// bpf_probe_read if it may not read the kernel's memory.
func loadKprobe(t *testing.T, insns asm.Instructions) error {
	t.Helper()
	var code bytes.Buffer
	require.NoError(t, insns.Marshal(&code, binary.LittleEndian)) // all machines of the tests are little-endian
	license := []byte("GPL\x00")
	attr := struct { // the beginning of union bpf_attr (include/uapi/linux/bpf.h)
		kind, instructions uint32
		code, license      uint64
		_                  [24]byte // no log
	}{
		kind: uint32(ebpf.Kprobe), instructions: uint32(code.Len() / asm.InstructionSize),
		code:    uint64(reflect.ValueOf(code.Bytes()).Pointer()),
		license: uint64(reflect.ValueOf(license).Pointer()),
	}
	fd, errno := uintptr(0), unix.EAGAIN
	for errno == unix.EAGAIN { // the verifier gives up on a signal, and Go's scheduler sends signals
		fd, _, errno = unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, reflect.ValueOf(&attr).Pointer(), reflect.TypeOf(attr).Size())
	}
	runtime.KeepAlive(&code)
	runtime.KeepAlive(license)
	runtime.KeepAlive(&attr)
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

// attachKprobe attaches a BPF program to a function of the kernel.
func attachKprobe(t *testing.T) error {
	t.Helper()
	spec := kerneltest.SmallProgram("kernelsym_kprobe", 0, 0)
	spec.Type = ebpf.Kprobe
	l, err := link.Kprobe("ksys_read", kerneltest.LoadBPF(t, spec), nil)
	if err != nil {
		return err
	}
	return l.Close()
}

// loadUnsigned loads a module without its signature (kernel/module/signing.c).
func loadUnsigned(t *testing.T) error {
	t.Helper()
	content, err := os.ReadFile(kerneltest.FindModule(t, "ifb").File)
	require.NoError(t, err)
	unsigned, found := bytes.CutSuffix(content, []byte("~Module signature appended~\n"))
	require.True(t, found, "the modules of the distribution are signed")
	name := filepath.Join(t.TempDir(), "ifb.ko")
	require.NoError(t, os.WriteFile(name, unsigned, 0o600))
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	t.Cleanup(func() { _ = kerneltest.UnloadModule("ifb") })
	return unix.FinitModule(int(f.Fd()), "", 0)
}

// readByte reads the first byte of a file.
func readByte(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.ReadFull(f, make([]byte, 1))
	return err
}
