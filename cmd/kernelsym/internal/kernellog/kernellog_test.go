// SPDX-License-Identifier: Apache-2.0

package kernellog

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// offset is what annotate looks up in a log: an offset in a function, or an address.
var offset = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_.$]*\+0x[0-9a-f]+/0x[0-9a-f]+|\b(?:0x)?ffff[0-9a-f]{12}\b`)

// letters are the roles in the tests: a letter for each offset.
var letters = map[Role]string{Exact: "E", Caller: "C", Undecided: "u", Mentioned: "m", Guess: "?"}

// rolesIn returns the roles of all offsets of a line that a kernel of an architecture wrote.
func rolesIn(r *Reader, line, arch string) (roles string) {
	r.Next([]byte(line))
	of := r.Roles()
	for _, at := range offset.FindAllStringIndex(line, -1) {
		roles += letters[of.At([]byte(line), at[0], arch)]
	}
	return roles
}

// TestContract_2_7_Logs reads logs of real kernels. Each line that has an offset or address begins with the roles that they
// must have, and a bar. Prefixes of logs make no difference.
func TestContract_2_7_Logs(t *testing.T) {
	files, err := filepath.Glob("testdata/*.log")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		arch := "amd64"
		if strings.Contains(file, "arm64") {
			arch = "arm64"
		}
		for name, prefix := range map[string]string{
			"none": "", "dmesg": "[   12.345678] ", "dmesg, decoded": "kern  :warn  : [   12.345678] ",
			"printk caller": "[   12.345678][  T123] ", "raw": "<4>[   12.345678] ", "journal": "Nov 26 12:00:00 host kernel: ",
			"ISO": "2026-11-27T06:38:06,123456+00:00 ",
		} {
			t.Run(filepath.Base(file)+" "+name, func(t *testing.T) {
				var r Reader
				n := 0
				for line := range strings.Lines(string(text)) {
					want, line, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "|")
					require.True(t, ok, line)
					assert.Equal(t, want, rolesIn(&r, prefix+line, arch), line)
					n += len(want)
				}
				assert.Positive(t, n)
			})
		}
	}
}

// TestContract_2_7_Lines verifies the roles in lines of a log. In want, a space separates the roles of two lines.
func TestContract_2_7_Lines(t *testing.T) {
	const (
		f, g, h = " f+0x10/0x40", " g+0x10/0x40", " h+0x10/0x40"
		pc      = "pc : f+0x10/0x40"
	)
	type test struct {
		name  string
		lines []string
		want  string // "-" for no offset
	}
	for arch, tests := range map[string][]test{
		"amd64": {
			{"outside of a trace", []string{f, "f+0x10/0x40", "see f+0x10/0x40 there", "[<0>]" + f, "called from f+0x10/0x40"}, "u u m u m"},
			{"address outside of a trace", []string{"ffffffff81000054", "ffffffff81000054 f+0x10/0x40 ([kernel.kallsyms])"}, "m mu"},
			{"address in a trace", []string{"Call Trace:", " 0xffffffffc0000000", " ? 0xffffffffc0000000", " [<ffffffffc0000000>] ? f+0x10/0x40", f}, "- C ? m? C"},
			{"address with a name", []string{"Call Trace:", " 0xffffffffc0000000 f+0x10 [m] a.c:5 (inlined)", f}, "- C C"},
			{"the end", []string{"Call Trace:", f, "Kernel panic - not syncing", f}, "- C - u"},
			{"markers", []string{"Call Trace:", " <IRQ>", f, " </IRQ>", " <TASK>", f, " </TASK>", " <#DF>", f, " <NMI>", f}, "- - C - - C - - C - C"},
			{"registers", []string{"Call Trace:", f, "RIP: 0010:f+0x10/0x40", "Code: 48 89", "RSP: 0018:ffffffff82003e58 EFLAGS: 00000202", g}, "- C E - m C"},
			{"two traces", []string{"Call Trace:", f, "Call Trace:", f}, "- C - C"},
			{"a guess", []string{"Call Trace:", " ? f+0x10/0x40 [xfs]", " f+0x10/0x40 (unreliable)", f}, "- ? ? C"},
			{"a guess outside", []string{" ? f+0x10/0x40"}, "?"},
			{"lines of annotate", []string{"Call Trace:", f + " (a.c:5)", f + " [m] (b include/b.h:1 (inlined) a.c:5)", " ? f+0x10/0x40", f + " (P) (a.c:5)"}, "- C C ? E"},
			{"another context", []string{"[ 1.0][   T1] Call Trace:", "[ 1.0][   T1] " + f, "[ 1.0][    C1] hello", "[ 1.0][    C1] " + f, "[ 1.0][   T1] " + f}, "- C - u C"},
			{"another context ends nothing, its own does", []string{"[    C0] Call Trace:", "[ 1.0][  C1] x", "[   C0]" + f, "[   C0] x", "[   C0]" + f}, "- - C - u"},
			{"interrupted on arm64, not here", []string{"Call Trace:", f, " el1_irq+0xb8/0x180", f}, "- C C C"},
			{"registers are no frames", []string{"Call trace:", f + " (C)", "x2 : 0000000000000000 x1 : ffff0000c0000000 x0 : ffff0000c0000000", f, "sp : ffff800080003e00", f}, "- C mm C m C"},
			{"marks", []string{
				"RIP: 0010:f+0x10/0x40 EIP: f+0x10/0x40", "PC is at f+0x10/0x40", "LR is at f+0x10/0x40", "lr : f+0x10/0x40",
				"NIP [f+0x10/0x40] LR [f+0x10/0x40]", "--- interrupt: 300 at f+0x10/0x40", "WARNING: CPU: 0 PID: 1 at a.c:1 f+0x10/0x40",
				"NMI backtrace for cpu 1 skipped: idling at f+0x10/0x40", "x-1 [000] d..1 1.0: g+0x0/0x40 <-f+0x10/0x40",
				"x-1 [000] d..1 1.0: ffffffff81000054 <-ffffffff81000054", "x: (f+0x10/0x40 <- g+0x0/0x40)",
			}, "EE E C C EC E E E mC mC mm"},
		},
		"arm64": {
			{"with letters", []string{pc, "Call trace:", f + " (P)", g, h + " (P)", f, " f+0x10/0x40 (U)", f + " (PF)"}, "E - E C E C u C"},
			{"of a task", []string{"Call trace:", " __switch_to+0xf0/0x150 (T)", f, " el1h_64_irq+0x6c/0x70", g}, "- C C C C"},
			{"letters outside", []string{f + " (P)", f + " (C)", f + " (T)", f + " (U)"}, "E C C u"},
			{"from registers", []string{pc, "lr : g+0x10/0x40", "Call trace:", f, g}, "E C - E C"},
			{"not from these registers", []string{pc, "Call trace:", g, f}, "E - u C"},
			{"from registers of another dump", []string{pc, "CPU: 0 PID: 1 Comm: x", "Call trace:", f}, "E - - u"},
			{"from registers before a trace", []string{pc, "Call trace:", f, "x", "Call trace:", f}, "E - E - - u"},
			{"interrupted", []string{"Call trace:", " __switch_to+0xf0/0x150", " el1_interrupt+0x34/0x68", " el1h_64_irq_handler+0x18/0x24", " el1h_64_irq+0x64/0x68", f, g}, "- u C C C E C"},
			{"interrupted, Linux 5.10", []string{"Call trace:", f, " el1_irq+0xb8/0x180", " arch_cpu_idle+0x18/0x28", g, " el1_sync_handler+0xc0/0xd0", g}, "- u C E C C C"},
			{"interrupted in entry code", []string{"Call trace:", f, " el1_irq+0xb8/0x180", " el1h_64_sync+0x64/0x68", f}, "- u C u E"},
			{"behind other entry code", []string{"Call trace:", f, " el0t_64_sync+0x198/0x19c", g, " __sdei_asm_handler+0x10/0x20", g}, "- u C u C u"},
		},
	} {
		for _, tt := range tests {
			t.Run(arch+" "+tt.name, func(t *testing.T) {
				var r Reader
				var got []string
				for _, line := range tt.lines {
					roles := rolesIn(&r, line, arch)
					if roles == "" {
						roles = "-"
					}
					got = append(got, roles)
				}
				assert.Equal(t, tt.want, strings.Join(got, " "))
			})
		}
	}
}

// TestContract_2_7_Policies verifies what the other policies change.
func TestContract_2_7_Policies(t *testing.T) {
	for policy, want := range map[Policy]string{ByTrace: "muECE?CE", AllCallers: "CCECE?CE", AllExact: "EEEEE?EE"} {
		r := Reader{Policy: policy}
		got := ""
		for _, line := range []string{
			"see f+0x1/0x2 there", " f+0x1/0x2", "RIP: 0010:f+0x1/0x2", "lr : f+0x1/0x2", " f+0x1/0x2 (P)", " ? f+0x1/0x2", "Call Trace:", " f+0x1/0x2",
			"WARNING: ? f+0x1/0x2",
		} {
			got += rolesIn(&r, line, "amd64")
		}
		assert.Equal(t, want, got)
	}
}

// TestContract_2_7_Architectures verifies that the architecture decides by which rules a trace is read.
func TestContract_2_7_Architectures(t *testing.T) {
	for arch, want := range map[string]string{
		"amd64": "-CCCE?", "arm64": "-uCEE?", "riscv64": "-uuuE?", "s390x": "-uuuE?", "": "-uuuE?",
	} {
		for _, header := range []string{"Call Trace:", "Call trace:"} {
			var r Reader
			got := ""
			for _, line := range []string{header, " f+0x1/0x2", " el1h_64_irq+0x1/0x2", " f+0x1/0x2", "RIP: 0010:f+0x1/0x2", " ? f+0x1/0x2"} {
				roles := rolesIn(&r, line, arch)
				if roles == "" {
					roles = "-"
				}
				got += roles
			}
			assert.Equal(t, want, got, "%s on %s", header, arch)
		}
	}
}

// TestFrame verifies which lines are frames of a trace.
func TestFrame(t *testing.T) {
	var r Reader
	for _, line := range []struct{ text, want string }{
		{" f+0x1/0x2", ""}, {"Call Trace:", ""}, {" f+0x1/0x2 [xfs]", "f+0x1/0x2"}, {"RIP: 0010:f+0x1/0x2", ""}, {"x", ""}, {" f+0x1/0x2", ""},
	} {
		r.Next([]byte(line.text))
		assert.Equal(t, line.want, r.Frame(), line.text)
	}
}

// FuzzReader reads any text. What is in front of its lines makes no difference, and no line is a frame unless it ends a trace
// or an offset is in it.
func FuzzReader(f *testing.F) {
	files, err := filepath.Glob("testdata/*.log")
	require.NoError(f, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(text))
	}
	f.Add("Call trace:\n el1_irq+0x1/0x2\n f+0x1/0x2 (P)\n[ T1] x\n")
	f.Fuzz(func(t *testing.T, text string) {
		var plain, prefixed Reader
		for line := range strings.Lines(text) {
			roles := rolesIn(&plain, line, "arm64") // which has the most rules
			assert.Equal(t, roles, rolesIn(&prefixed, "[   12.345678] "+line, "arm64"), "%q", line)
			if plain.Frame() != "" {
				assert.Contains(t, line, plain.Frame())
			}
		}
	})
}
