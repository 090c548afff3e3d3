// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAgree(t *testing.T) {
	for _, tt := range []struct {
		symbol, dwarf string
		want          bool
	}{
		{"vfs_read", "vfs_read", true},
		{"vfs_read", "vfs_write", false},
		{"vfs_read", "", false},
		{"", "", false},
		{"cleanup_module", "", false},

		{"f.isra.0", "f", true},
		{"f.constprop.12", "f", true},
		{"f.part.0", "f", true},
		{"f.cold", "f", true},
		{"f.cold.3", "f", true},
		{"f.llvm.1234567890", "f", true},
		{"f.constprop.0.isra.1.part.2.cold", "f", true},
		{"f.cold.isra.0", "f", true},
		{"_RNvNtC4core3fmt5write.llvm.12", "_RNvNtC4core3fmt5write.llvm.99", true},
		{"f.isra.0", "g", false},
		{"f.isra", "f", false},
		{"f.isra.", "f", false},
		{"f.isra.x", "f", false},
		{"f.0", "f", false},
		{"f.colder", "f", false},
		{".cold", "", false},
		{"f..cold", "f", false},
		{"f12", "f", false},
		{"f.isra.0", "f.isra.1", true},
		{"f.cold", "f.part.0", true},
		{"f.other.0", "f", false},
		{"fisra.0", "f", false},
		{"0", "1", false},

		{"__do_sys_getpid", "__do_sys_getpid", true},
		{"__x64_sys_getpid", "__do_sys_getpid", true},
		{"__ia32_sys_getpid", "__do_sys_getpid", true},
		{"__ia32_compat_sys_sigreturn", "__do_compat_sys_sigreturn", true},
		{"__arm64_sys_read", "__se_sys_read", true},
		{"__arm64_compat_sys_read", "__arm64_compat_sys_read", true},
		{"__x64_sys_getpid", "__do_sys_getppid", false},
		{"__x64_sys_read", "__do_compat_sys_read", false},
		{"__x64_sys_read", "ksys_read", false},
		{"__ia32_sys_ioctl", "__ia32_compat_sys_ioctl", false},
		{"__foo_sys_read", "__bar_sys_read", false},
		{"sys_ni_syscall", "__do_sys_ni_syscall", true},
		{"__x64_sys_ni_syscall", "sys_ni_syscall", true},
		{"sys_getpid", "__do_sys_getppid", false},
		{"__do_softirq", "__se_softirq", false},

		{"init_module", "nf_tables_module_init", true},
		{"cleanup_module", "nf_tables_module_exit", true},
		{"nf_tables_module_exit", "cleanup_module", true},
		{"ext4_init_fs", "init_module", true},
		{"cleanup_module.cold", "ext4_exit_fs", true},
		{"cleanup_modules", "ext4_exit_fs", false},

		{"__kvm_nvhe_handle_trap", "handle_trap", true},
		{"__kvm_nvhe_handle_trap.cold", "handle_trap", true},
		{"handle_trap", "__kvm_nvhe_handle_trap", false},
		{"__kvm_nvhe_handle_trap", "handle_exit", false},
	} {
		assert.Equal(t, tt.want, Agree(tt.symbol, tt.dwarf), "%q and %q", tt.symbol, tt.dwarf)
	}
	agreed := true
	assert.Zero(t, testing.AllocsPerRun(100, func() { agreed = agreed && Agree("__x64_sys_getpid.isra.0.cold", "__do_sys_getpid.llvm.1") }))
	assert.True(t, agreed)
}
