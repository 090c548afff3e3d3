// SPDX-License-Identifier: Apache-2.0

package pack

import "strings"

// Agree reports whether a symbol of the kernel and the linkage name of a function in DWARF are
// names of one function. Only then may a pack's information about an address be combined with
// the symbol that kallsyms has for it (see contract 10.1).
//
// Names that differ agree only if the difference has one of these reasons:
//   - The compiler appends suffixes to the symbols of parts and clones of a function.
//   - SYSCALL_DEFINE gives one function several symbols (include/linux/syscalls.h and
//     arch/*/include/asm/syscall_wrapper.h), and DWARF has only the one with the code.
//   - module_init and module_exit make init_module and cleanup_module aliases of static
//     functions of any name (include/linux/module.h): either may be the name of the symbol.
//   - objcopy puts __kvm_nvhe_ before each symbol of KVM's hypervisor code
//     (arch/arm64/kvm/hyp/nvhe/Makefile), but not before the names in its DWARF.
//
// It does not allocate.
func Agree(symbol, dwarf string) bool {
	if dwarf == "" {
		return false
	}
	if symbol == dwarf {
		return true
	}
	symbol = strings.TrimPrefix(withoutSuffixes(symbol), "__kvm_nvhe_")
	dwarf = withoutSuffixes(dwarf)
	if symbol == dwarf || isModuleHook(symbol) || isModuleHook(dwarf) {
		return true
	}
	call, ok := systemCall(symbol)
	other, okToo := systemCall(dwarf)
	return ok && okToo && call == other
}

// isModuleHook reports whether a name is an alias that modules give to one of their functions.
func isModuleHook(name string) bool { return name == "init_module" || name == "cleanup_module" }

// withoutSuffixes returns a symbol without the suffixes that compilers append: .isra.N,
// .constprop.N and .part.N (gcc), .llvm.N (clang with LTO), .cold and .cold.N (both), in any
// order.
func withoutSuffixes(name string) string {
	for {
		numberless := name
		if rest := strings.TrimRight(name, "0123456789"); strings.HasSuffix(rest, ".") && rest != name {
			numberless = rest[:len(rest)-1]
		}
		dot := strings.LastIndexByte(numberless, '.')
		if dot <= 0 {
			return name
		}
		switch numberless[dot+1:] {
		case "isra", "constprop", "part", "llvm":
			if numberless == name {
				return name
			}
		case "cold":
		default:
			return name
		}
		name = numberless[:dot]
	}
}

// systemCall returns the part of a symbol that all symbols of one system call share: sys_NAME
// or compat_sys_NAME. A few symbols, such as sys_ni_syscall, have no other part.
func systemCall(symbol string) (call string, ok bool) {
	call = symbol
	for _, prefix := range [...]string{"__do_", "__se_", "__x64_", "__ia32_", "__arm64_"} {
		if rest, cut := strings.CutPrefix(symbol, prefix); cut {
			call = rest
			break
		}
	}
	return call, strings.HasPrefix(call, "sys_") || strings.HasPrefix(call, "compat_sys_")
}
