// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestContract_3_1_Classify(t *testing.T) {
	for name, want := range map[string]class{
		"schedule":                     className,
		"__schedule":                   className,
		"_printk":                      className,
		"do_one_initcall.isra.0.cold":  className,
		"a":                            className,
		"_":                            className,
		"__":                           className,
		"L":                            className,
		"List":                         className,
		"L1_cache_flush":               className,
		"cfi":                          className,
		"__x64_sys_read":               className,
		"__mmu_notifier_range_start":   className, // a function, not a section marker
		"__traceiter_contention_end":   className,
		"__io_context_start":           className,
		"__start_tty":                  className,
		"__stop_tty":                   className,
		"__start_context":              className,
		"__SCT__tp_func_x_end":         className,
		"srso_alias_untrain_ret":       className,
		"_RNvNtCs1234_4core3fmt5write": className,
		"__pfx_schedule":               classBound,
		"__cfi_schedule":               classBound,
		"__pi___pfx_schedule":          classBound,
		"_text":                        classBound,
		"_stext":                       classBound,
		"_etext":                       classBound,
		"_sinittext":                   classBound,
		"_einittext":                   classBound,
		"__pi__text":                   classBound,
		"__entry_text_start":           classBound,
		"__entry_text_end":             classBound,
		"__softirqentry_text_start":    classBound,
		"__hibernate_exit_text_end":    classBound,
		"__text_start":                 classBound,
		"__indirect_thunk_end":         classBound,
		"__relocate_new_kernel_start":  classBound,
		"__start_kprobes_text":         classBound,
		"__stop_kprobes_text":          classBound,
		"schedule.cfi":                 classTwin,
		"schedule.cfi_jt":              classTwin,
		"f.cfi":                        classTwin,
		"__pi_memcpy":                  classTwin,
		"$a":                           classIgnored,
		"$d":                           classIgnored,
		"$t":                           classIgnored,
		"$x":                           classIgnored,
		"$x.42":                        classIgnored,
		"$xrv64i2p1":                   classIgnored,
		".L123":                        classIgnored,
		"L0\x01":                       classIgnored,
		".klp.sym.vmlinux.printk,0":    classIgnored,
		"":                             classIgnored,
	} {
		for _, typ := range []byte("tTwW") {
			assert.Equal(t, want, classify(typ, []byte(name)), "%c %q", typ, name)
		}
	}
}

func TestContract_3_1_OtherTypesOnlyBound(t *testing.T) {
	for _, typ := range []byte("aAbBdDrRvVnNuU?") {
		assert.Equal(t, classBound, classify(typ, []byte("jiffies")), "%c", typ)
		assert.Equal(t, classIgnored, classify(typ, []byte("$d")), "%c", typ)
	}
}
