// SPDX-License-Identifier: Apache-2.0

package symtab

import "bytes"

// class is the role of a line of /proc/kallsyms in a symbol table.
type class uint8

const (
	classIgnored class = iota // lies inside a function or elsewhere: neither a name nor a bound
	classBound                // ends what comes before it
	classTwin                 // can be a name, unless the plain name exists too
	className                 // can be a name
)

// classify returns the class of a symbol of a type (contract 3.1). The type is a letter as nm(1) prints it.
func classify(typ byte, name []byte) class {
	if len(name) == 0 {
		return classIgnored
	}
	switch name[0] {
	case '$', '.', 'L':
		if isLocalLabel(name) {
			return classIgnored
		}
	}
	if !IsCode(typ) {
		return classBound
	}
	if name[0] == '_' && len(name) > 1 {
		if len(name) > len("__pfx_") {
			// Comparing with constants, the compiler needs no call.
			switch string(name[:len("__pfx_")]) {
			case "__pfx_", // nops before a function (CONFIG_CALL_PADDING)
				"__cfi_": // the type hash before a function (kCFI)
				return classBound
			}
		}
		if isSectionMark(name) {
			return classBound
		}
		if plain := plainName(name); len(plain) < len(name) {
			return min(classTwin, classify(typ, plain))
		}
		return className
	}
	if len(plainName(name)) < len(name) {
		return classTwin
	}
	return className
}

// IsCode reports whether symbols of the type, a letter as nm(1) prints it, name
// code.
func IsCode(typ byte) bool {
	switch typ {
	case 't', 'T', 'w', 'W':
		return true
	}
	return false
}

// plainName returns the name without what makes it another name's twin: a prefix
// of position-independent aliases, or a suffix of clang's CFI, which gives a
// function and its entry in the jump table a name each.
func plainName(name []byte) []byte {
	if len(name) > len("__pi_") && string(name[:len("__pi_")]) == "__pi_" {
		name = name[len("__pi_"):]
	}
	if n := len(name) - len(".cfi"); n > 0 && string(name[n:]) == ".cfi" {
		return name[:n]
	}
	if n := len(name) - len(".cfi_jt"); n > 0 && string(name[n:]) == ".cfi_jt" {
		return name[:n]
	}
	return name
}

// isLocalLabel reports whether the name is an assembler's: a mapping symbol
// ($x and the like, also with a suffix), a local label, or a relocation of a
// livepatch.
func isLocalLabel(name []byte) bool {
	if len(name) < 2 {
		return false
	}
	switch name[0] {
	case '$':
		return bytes.IndexByte([]byte("adtx"), name[1]) >= 0
	case 'L':
		return name[1] == '0'
	case '.':
		return name[1] == 'L' || bytes.HasPrefix(name, []byte(".klp.sym."))
	}
	return false
}

// isSectionMark reports whether the name, which begins with an underscore, is
// one that a linker script puts at the ends of the kernel's text and
// of the sections in it (include/asm-generic/vmlinux.lds.h and
// arch/*/kernel/vmlinux.lds.S of Linux 5.10 to 7.2).
//
// Many functions are called __*_start or __*_end too
// (__mmu_notifier_invalidate_range_start), so the part in between
// decides.
func isSectionMark(name []byte) bool {
	if name[1] != '_' {
		switch string(name) {
		case "_text", "_stext", "_etext", "_sinittext", "_einittext":
			return true
		}
		return false
	}
	section := name[2:]
	switch name[len(name)-1] {
	case 't':
		if start, ok := bytes.CutSuffix(section, []byte("_start")); ok {
			return isTextSection(start)
		}
		if _, mark, ok := bytes.Cut(section, []byte("_")); ok && isTextSection(mark) {
			return bytes.HasPrefix(section, []byte("start_")) || bytes.HasPrefix(section, []byte("stop_"))
		}
	case 'd':
		end, ok := bytes.CutSuffix(section, []byte("_end"))
		return ok && isTextSection(end)
	}
	return false
}

func isTextSection(section []byte) bool {
	switch string(section) {
	case "text", "indirect_thunk", "relocate_new_kernel":
		return true
	}
	return bytes.HasSuffix(section, []byte("_text"))
}
