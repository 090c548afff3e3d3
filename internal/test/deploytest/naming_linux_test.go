// SPDX-License-Identifier: Apache-2.0

package deploytest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// coreFunctions returns the starts of some functions of the kernel, each with exactly one name, and
// their names.
func coreFunctions(t *testing.T) (addresses []uint64, names []string) {
	t.Helper()
	list := kerneltest.ReadSymbols(t)
	for addr := list.Stext; addr < list.Etext && len(names) < 500; addr = list.After(addr) {
		if all := list.Names[addr]; len(all) == 1 && !strings.Contains(all[0], "__") && !strings.HasSuffix(all[0], "_start") &&
			!strings.HasSuffix(all[0], "_end") && !strings.HasPrefix(all[0], "_") {
			addresses, names = append(addresses, addr), append(names, all[0])
		}
	}
	require.Len(t, names, 500)
	return addresses, names
}

// program loads a program and returns its address and the kernel's name for it.
func program(t *testing.T, name string) (address uint64, symbol string) {
	t.Helper()
	prog := kerneltest.LoadBPF(t, kerneltest.SmallProgram(name, 1, 5))
	info, err := prog.Info()
	require.NoError(t, err)
	return kerneltest.CodeOf(t, prog)[0].Start, "bpf_prog_" + info.Tag + "_" + name
}

// TestContainer verifies that the agent of each manifest, in a container made from it, names kernel
// frames: of the kernel, and of BPF programs that were loaded before it started and after.
func TestContainer(t *testing.T) {
	needSandbox(t)
	for _, name := range kustomizations(t) {
		if name == "components/network-policy" || name == "components/prometheus-operator" {
			continue // their agent is the base's
		}
		t.Run(name, func(t *testing.T) {
			noSysAdmin := !slices.Contains(rightsOf(name), "SYS_ADMIN")
			addresses, names := coreFunctions(t)
			before, symbol := program(t, "before")
			m := render(t, name)
			l := connect(startContainer(t, m))
			if !noSysAdmin { // otherwise, it is not listed
				addresses, names = append(addresses, before), append(names, symbol)
			}
			l.eventually("names", func() error { return firstUnnamed(l.pass(addresses), names) })

			addr, symbol := program(t, "after")
			addresses, names = append(addresses, addr), append(names, symbol)
			l.eventually("the name of a program that was just loaded", func() error {
				return firstUnnamed(l.pass(addresses), names)
			})
			assert.Regexp(t, `^[1-9]\d* of [1-9]\d* kernel frames have a name\n$`, countOf(t, l.metrics()))
			want := map[string]string{"kallsyms": "1", "modules": "1", "bpf": "1"}
			if name == locates {
				want["packs"] = "0" // its directory does not exist
			}
			if noSysAdmin {
				want["bpf"] = "0" // the list of programs is missing
				assert.Empty(t, l.pass([]uint64{before})[0].Lines)
				l.checkHealth(m, "StatusRecoverableError", "grant CAP_SYS_ADMIN")
			} else {
				l.checkHealth(m, "StatusOK", "")
			}
			for _, sampleType := range sampleTypes(name) {
				l.eventually("samples of "+sampleType, func() error {
					if !regexp.MustCompile(`(?m)^otelcol_receiver_accepted_profile_samples[^\n]*receiver="kernelstack"[^\n]*sample_type="` + sampleType + `"[^\n]* [1-9]`).MatchString(l.metrics()) {
						return errors.New("none")
					}
					return nil
				})
			}
			l.eventually("the sources are as they should be", func() error {
				if up := l.sources(); !maps.Equal(want, up) {
					return fmt.Errorf("%v are not %v", up, want)
				}
				return nil
			})
			l.checkRights(m, rightsOf(name))
			for _, metric := range usedMetrics(t) {
				switch {
				case !strings.HasPrefix(metric, "otelcol_"): // Prometheus and kube-state-metrics have it
					continue
				case strings.Contains(metric, "_kernelsym_pack"): // only collectors with packs have it
					continue
				case regexp.MustCompile(`^otelcol_(exporter_\w+_failed|extension_admission)_`).MatchString(metric): // they appear with the first failure
					continue
				case strings.HasPrefix(metric, "otelcol_receiver_kernelstack") && !samplesKernel(name):
					continue
				case strings.HasPrefix(metric, "otelcol_processor_internal_duration"): // only at the level detailed
					continue
				}
				assert.Regexp(t, `(?m)^`+metric+`[{ ]`, l.metrics())
			}
		})
	}
}

// sampleTypes returns the types of samples that the agent of a manifest takes itself.
func sampleTypes(name string) (types []string) {
	if samplesKernel(name) {
		types = append(types, "samples:count")
	}
	if samplesWaits(name) {
		types = append(types, "off_cpu:nanoseconds")
	}
	return types
}

// firstUnnamed returns an error for the first frame that does not have its name.
func firstUnnamed(frames []rewritetest.Frame, names []string) error {
	for i, f := range frames {
		if len(f.Lines) == 0 || f.Lines[0].System != names[i] {
			return fmt.Errorf("%s is named %+v", names[i], f.Lines)
		}
	}
	return nil
}

// checkRights checks what the process itself may do, and which files it sees.
func (c *container) checkRights(m *manifest, want []corev1.Capability) {
	c.t.Helper()
	proc := fmt.Sprintf("/proc/%d/", c.PID())
	var mask uint64
	for _, name := range want {
		bit, err := capabilityOf(string(name))
		require.NoError(c.t, err)
		mask |= 1 << bit
	}
	status, err := os.ReadFile(proc + "status")
	require.NoError(c.t, err)
	for _, line := range []string{
		fmt.Sprintf("CapPrm:\t%016x", mask), fmt.Sprintf("CapEff:\t%016x", mask), fmt.Sprintf("CapBnd:\t%016x", mask),
		"NoNewPrivs:\t1", "Uid:\t0\t0\t0\t0",
	} {
		assert.Contains(c.t, string(status), line+"\n")
	}
	mounts, err := os.ReadFile(proc + "mountinfo")
	require.NoError(c.t, err)
	allowed := map[string]bool{"/": true, "/proc": true, "/sys": true, "/dev": true}
	writable := map[string]bool{"/proc": true, "/dev": true}
	for _, mount := range m.mounts(c.t, m.pods()["kernelsym"].Spec, collectorOf(c.t, m.pods()["kernelsym"].Spec)) {
		allowed[mount.Target] = true
		writable[mount.Target] = mount.Writable
		allowed[strings.TrimPrefix(mount.Target, "/host")] = true // hidden from it
	}
	for line := range strings.Lines(string(mounts)) {
		at, options := strings.Fields(line)[4], strings.Fields(line)[5]
		assert.True(c.t, allowed[at] || strings.HasPrefix(at, "/host/sys/fs/cgroup/"), line) // the machine may have several hierarchies
		if !writable[at] {
			assert.Contains(c.t, strings.Split(options, ","), "ro", line)
		}
	}
}

// TestContainerWithoutSyslog verifies that without CAP_SYSLOG, the kernel shows no addresses, and
// frames leave without theirs.
func TestContainerWithoutSyslog(t *testing.T) {
	needSandbox(t)
	addresses, _ := coreFunctions(t)
	l := connect(startContainer(t, render(t, "base"), "SYSLOG"))
	l.eventually("it says that it has no symbols", func() error {
		if !strings.Contains(l.Log(), `"source": "kallsyms", "state": "down"`) {
			return errors.New("it has not yet")
		}
		return nil
	})
	for _, f := range l.pass(addresses) {
		assert.Equal(t, rewritetest.Frame{Type: "kernel"}, f)
	}
	assert.Equal(t, "0", l.sources()["kallsyms"])
}

// TestContainerLocates verifies that the component locate names samples where the kernel shows no addresses to the agent, with
// a pack in its volume.
func TestContainerLocates(t *testing.T) {
	needSandbox(t)
	kerneltest.NeedPerf(t)
	kerneltest.Busy(t)
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), buildImage(t).Root+"/kernelsym", "pack", "--running", "--dir", dir+"/packs").CombinedOutput()
	require.NoError(t, err, "%s", out)
	m := render(t, locates)
	pod := &m.daemonSets[0].Spec.Template.Spec
	for i := range pod.Volumes {
		if pod.Volumes[i].Name == "packs" {
			pod.Volumes[i].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}
		}
	}
	mounts := pod.Containers[0].VolumeMounts
	for i := range mounts {
		mounts[i].ReadOnly = true
	}
	l := connect(startContainer(t, m, "SYSLOG"))
	l.eventually("the kernel is located", func() error {
		if !strings.Contains(l.Log(), "names of the core kernel come from a pack") {
			return errors.New("it has not logged that")
		}
		return nil
	})
	named := regexp.MustCompile(`(?m)^otelcol_processor_kernelsym_frames\{[^\n]*outcome="resolved"[^\n]*processor="kernelsym/locate"[^\n]* [1-9]`)
	l.eventually("named samples", func() error {
		if !named.MatchString(l.metrics()) {
			return errors.New("none")
		}
		return nil
	})
}
