// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/moby/sys/capability"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// A place is code whose name the test knows.
type place struct {
	Addr, End uint64
	Name      string // or a part of it
	At        int64  // on the boot clock, when it was loaded; 0 if it still is
}

// TestPrivileges starts the sources with each setting that the running kernel can have, and
// verifies the named code against the table of docs/privileges.md. Modules and the sysctls need the
// virtual machines of `make test-vm`, which share the settings. `make privileges` puts what the
// test prints there into the table.
func TestPrivileges(t *testing.T) {
	kerneltest.NeedBPF(t)
	kerneltest.NeedRestrictedPerf(t)
	inVM := kerneltest.InVM()
	all := readPrivileges(t)
	// The kernel decides which of a module's files is read first.
	section := regexp.MustCompile(`(/sys/module/)\w+/sections/[^:]+`)
	before := kerneltest.LoadBPF(t, kerneltest.HotProgram(t))
	code := kerneltest.CodeOf(t, before)[0]
	w := witness{
		Core:   coreFunction(t),
		Before: place{Addr: code.Start, End: code.End, Name: "bpf_prog_"},
	}
	if inVM {
		w.Module = moduleFunction(t)
	}
	binary := kerneltest.Shared(t, "/proc/self/exe")
	for _, s := range settings() {
		if !inVM && s.Sysctls != usual || inVM && s.lockdown() != kerneltest.Lockdown(t) {
			continue
		}
		if inVM && s.isMeasuredElsewhere(kerneltest.OlderThan(t, 6, 12)) {
			continue
		}
		if s.Sysctls == closedPerf && (kerneltest.OlderThan(t, 6, 12) || !kerneltest.OlderThan(t, 6, 13)) {
			continue // the patch that matters differs between kernels
		}
		t.Run(s.String(), func(t *testing.T) {
			if inVM {
				setSysctls(t, s.Sysctls)
			}
			got := measureAmongFew(t, binary, s, w)
			for source, status := range got.Status {
				got.Status[source] = section.ReplaceAllString(status, "$1*/sections/*")
			}
			if w.Module.Addr == 0 { // outside a virtual machine, the test loads no module
				got.Modules = all[s.String()].Modules
				if status, ok := all[s.String()].Status["modules"]; ok {
					got.Status["modules"] = status
				}
			}
			if *update {
				all[s.String()] = got
			}
			line, err := json.Marshal(measured{s, got})
			require.NoError(t, err)
			t.Logf(measuredMark+"%s", line)
			assert.Equal(t, all[s.String()], got, "docs/privileges.md")
		})
	}
	if *update && !inVM {
		writePrivileges(t, all)
	}
}

// setSysctls sets the sysctls of a setting, in a virtual machine.
func setSysctls(t *testing.T, sysctls string) {
	t.Helper()
	kptr, paranoid, harden := "1", "2", "0"
	switch sysctls {
	case hidden:
		kptr = "2"
	case closedPerf:
		paranoid = "3"
	case hardened:
		harden = "1"
	case openPerf:
		paranoid = "0"
	case openHidden:
		kptr, paranoid = "0", "1"
	case openAll:
		kptr, paranoid = "0", "0"
	default:
		// With these rights, 0 is the same as 1. Each value is measured in some kernel: both in one
		// would take minutes more.
		if kerneltest.OlderThan(t, 6, 12) {
			kptr = "0"
		}
	}
	set := func(kptr, paranoid, harden string) {
		for name, value := range map[string]string{
			"kernel/kptr_restrict": kptr, "kernel/perf_event_paranoid": paranoid, "net/core/bpf_jit_harden": harden,
		} {
			require.NoError(t, os.WriteFile("/proc/sys/"+name, []byte(value), 0))
		}
	}
	set(kptr, paranoid, harden)
	t.Cleanup(func() { set("1", "2", "0") }) // the values of the virtual machine
}

var capsByName = map[string]capability.Cap{
	"SYSLOG": capability.CAP_SYSLOG, "PERFMON": capability.CAP_PERFMON,
	"BPF": capability.CAP_BPF, "SYS_ADMIN": capability.CAP_SYS_ADMIN,
}

// measureAmongFew measures while few BPF programs are loaded. Other tests load thousands, and then
// the kernel takes longer to list their names than the sources wait.
func measureAmongFew(t *testing.T, binary string, s setting, w witness) outcome {
	t.Helper()
	for range 20 {
		require.Eventually(t, fewPrograms, 5*time.Minute, 100*time.Millisecond, "other tests unload their BPF programs")
		if o := measure(t, binary, s, w); fewPrograms() && !o.Disturbed {
			return o
		}
		t.Log("disturbed by other programs: trying again")
	}
	t.Fatal("other tests load BPF programs all the time")
	return outcome{}
}

// fewPrograms reports whether few BPF programs are loaded. /proc/kallsyms would show that, too, but
// reading it takes a second in a virtual machine.
func fewPrograms() bool {
	const few = 200
	id := ebpf.ProgramID(0)
	for range few {
		var err error
		if id, err = ebpf.ProgramGetNextID(id); err != nil {
			return errors.Is(err, os.ErrNotExist)
		}
	}
	return false
}

// measure runs TestPrivilegesChild with a setting, and loads programs while it runs.
func measure(t *testing.T, binary string, s setting, w witness) (o outcome) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^TestPrivilegesChild$", "-test.v")
	cmd.Dir = "/"
	knows, err := json.Marshal(w)
	require.NoError(t, err)
	cmd.Env = append(os.Environ(), childEnv+"="+string(knows))
	results, result, err := os.Pipe()
	require.NoError(t, err)
	defer results.Close()
	defer result.Close()
	cmd.ExtraFiles = []*os.File{result}
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	var caps []capability.Cap
	for _, name := range s.Caps {
		caps = append(caps, capsByName[name])
	}
	if s.User != "root" {
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		for _, c := range caps {
			cmd.SysProcAttr.AmbientCaps = append(cmd.SysProcAttr.AmbientCaps, uintptr(c))
		}
		caps = append(caps, capability.CAP_SETUID, capability.CAP_SETGID, capability.CAP_SETPCAP) // lost with the user
	}
	require.NoError(t, kerneltest.StartWith(cmd, caps...))
	_ = result.Close()
	answers := bufio.NewReader(results)
	_, err = answers.ReadString('\n') // the sources have reported their states
	if err == nil {
		since, brief, ok := loadMore(t)
		if !ok {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			return outcome{Disturbed: true}
		}
		require.NoError(t, json.NewEncoder(stdin).Encode(append(brief, since)))
		err = json.NewDecoder(answers).Decode(&o)
	}
	_ = stdin.Close()
	require.NoError(t, cmd.Wait(), out.String())
	require.NoError(t, err, out.String())
	t.Log(out.String()) // explains the outcome
	return o
}

// coreFunction returns a function of the core kernel.
func coreFunction(t *testing.T) place {
	t.Helper()
	symbols := kerneltest.ReadSymbols(t)
	for _, addr := range slices.Sorted(maps.Keys(symbols.Names)) {
		if names := symbols.Names[addr]; symbols.InText(addr) && len(names) == 1 && names[0] == "ksys_read" {
			return place{Addr: addr, Name: names[0]}
		}
	}
	t.Fatal("no ksys_read")
	return place{}
}

// moduleFunction loads a module and returns one of its functions.
func moduleFunction(t *testing.T) (p place) {
	t.Helper()
	kerneltest.NeedModules(t)
	const module = "veth"
	require.NoError(t, kerneltest.LoadModule(module))
	t.Cleanup(func() { _ = kerneltest.UnloadModule(module) })
	list, err := os.ReadFile("/proc/kallsyms")
	require.NoError(t, err)
	const function = "veth_xmit"
	for line := range strings.Lines(string(list)) {
		if strings.HasSuffix(line, " "+function+"\t["+module+"]\n") {
			_, err := fmt.Sscanf(line, "%x", &p.Addr)
			require.NoError(t, err)
			p.Name = function
			return p
		}
	}
	t.Fatal("no function of the module")
	return p
}
