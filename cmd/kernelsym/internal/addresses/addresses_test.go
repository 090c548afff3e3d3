// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// named names every address that ends in 54 as main_loop, and every address that ends in 55 as a
// Rust function.
func named(addr uint64, _ int) Name {
	switch addr & 0xff {
	case 0x54:
		return Name{Text: "main_loop+0x4 [mod] a.c:5", Function: "main_loop"}
	case 0x55:
		return Name{Text: "<a as b>::c+0x5", Function: "<a as b>::c"}
	}
	return Name{}
}

func TestAnnotate(t *testing.T) {
	const is = " main_loop+0x4 [mod] a.c:5"
	for _, tt := range []struct{ line, want string }{
		{"", ""},
		{"text only\n", "text only\n"},
		{"ffffffff81000054", "ffffffff81000054" + is},
		{"ffffffff81000054\r\n", "ffffffff81000054" + is + "\r\n"},
		{"a 0xFFFFFFFF81000054, b", "a 0xFFFFFFFF81000054" + is + ", b"},
		{"RIP: 0010:ffffffff81000054 [ffffffff81000054]", "RIP: 0010:ffffffff81000054" + is + " [ffffffff81000054" + is + "]"},
		{"ffffffff81000054:\t55\tpush %rbp", "ffffffff81000054" + is + ":\t55\tpush %rbp"},
		{"ffffffff81000055 x", "ffffffff81000055 <a as b>::c+0x5 x"},

		// not in the kernel half of the address space, or part of a longer word
		{"0000000081000054 7fffffff81000054 ffffff81000054", "0000000081000054 7fffffff81000054 ffffff81000054"},
		{"0ffffffff81000054 bpf_prog_ffffffff81000054_f xffffffff81000054", "0ffffffff81000054 bpf_prog_ffffffff81000054_f xffffffff81000054"},
		{"ffffffff81000054ffffffff81000054ffffffff", "ffffffff81000054ffffffff81000054ffffffff"},
		{"ffffffff81000099 \xff\x00", "ffffffff81000099 \xff\x00"},

		// names that other programs have added stay as they are
		{"\tffffffff81000054 main_loop+0x4 ([kernel.kallsyms])", "\tffffffff81000054 main_loop+0x4 ([kernel.kallsyms])"},
		{"ffffffff81000054 other_name+0x1/0x20", "ffffffff81000054 other_name+0x1/0x20"},
		{"ffffffff81000054 other_name ([mod])", "ffffffff81000054 other_name ([mod])"},
		{"ffffffff81000054 <main_loop>:", "ffffffff81000054 <main_loop>:"},
		{"ffffffff81000054 main_loop", "ffffffff81000054 main_loop"},
		{" [<ffffffff81000054>] main_loop+0x4/0x40", " [<ffffffff81000054>] main_loop+0x4/0x40"},
		{"ffffffff81000055 <a as b>::c+0x5 x", "ffffffff81000055 <a as b>::c+0x5 x"},

		// not a name
		{"ffffffff81000054 [unknown] ([kernel.kallsyms])", "ffffffff81000054" + is + " [unknown] ([kernel.kallsyms])"},
		{"ffffffff81000054 main_loops", "ffffffff81000054" + is + " main_loops"},
		{"ffffffff81000054 ffffffff81000099+0x4", "ffffffff81000054" + is + " ffffffff81000099+0x4"},
		{"ffffffff81000054 called from (x)", "ffffffff81000054" + is + " called from (x)"},
	} {
		assert.Equal(t, tt.want, string(Annotate([]byte(tt.line), named)))
	}
}

// FuzzAnnotate verifies that only names are added, and that a line with names keeps them.
func FuzzAnnotate(f *testing.F) {
	f.Add("ffffffff81000054 x\n")
	f.Add("[<ffffffff81000055>] 0xffffffff81000054/ffffffff81000054")
	f.Fuzz(func(t *testing.T, line string) {
		n := 0
		mark := func(addr uint64, start int) Name {
			if named(addr, start).Text == "" {
				return Name{}
			}
			n++
			return Name{Text: fmt.Sprintf("name%d+0x0", n), Function: fmt.Sprintf("name%d", n)}
		}
		once := string(Annotate([]byte(line), mark))
		assert.LessOrEqual(t, len(line), len(once))
		back := once
		for i := n; i > 0; i-- {
			back = strings.Replace(back, fmt.Sprintf(" name%d+0x0", i), "", 1)
		}
		if !strings.Contains(line, "name") {
			assert.Equal(t, line, back)
		}
		if !strings.Contains(line, "unknown]") {
			assert.Equal(t, once, string(Annotate([]byte(once), mark)))
		}
	})
}
