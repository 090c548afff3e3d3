// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x)

package bpf

import "unsafe"

// These structs have pointers where the kernel has __aligned_u64, which is why 32-bit machines
// are not supported.

// programInfo is struct bpf_prog_info.
type programInfo struct {
	programType          uint32
	id                   uint32
	tag                  [8]byte
	_                    uint32 // jited_prog_len
	_                    uint32 // xlated_prog_len
	_                    uint64 // jited_prog_insns
	_                    uint64 // xlated_prog_insns
	loadTime             uint64 // nanoseconds of CLOCK_BOOTTIME
	createdByUID         uint32
	_                    uint32 // nr_map_ids
	_                    uint64 // map_ids
	name                 [16]byte
	_                    uint32 // ifindex
	_                    uint32 // gpl_compatible
	_                    uint64 // netns_dev
	_                    uint64 // netns_ino
	nrJitedKsyms         uint32
	nrJitedFuncLens      uint32
	jitedKsyms           unsafe.Pointer
	jitedFuncLens        unsafe.Pointer
	btfID                uint32
	funcInfoRecSize      uint32
	funcInfo             unsafe.Pointer
	nrFuncInfo           uint32
	nrLineInfo           uint32
	lineInfo             unsafe.Pointer
	jitedLineInfo        unsafe.Pointer
	nrJitedLineInfo      uint32
	lineInfoRecSize      uint32
	jitedLineInfoRecSize uint32
	nrProgTags           uint32
	progTags             unsafe.Pointer
	runTime              uint64 // nanoseconds, while statistics are enabled
	runs                 uint64
}

// btfInfo is struct bpf_btf_info.
type btfInfo struct {
	btf     unsafe.Pointer
	btfSize uint32
	_       uint32 // id
	name    unsafe.Pointer
	nameLen uint32 // with the zero byte
	kernel  uint32 // 1 for the BTF of the kernel and of modules
}

// funcInfo is struct bpf_func_info.
type funcInfo struct {
	_      uint32 // insn_off
	typeID uint32
}

// lineInfo is struct bpf_line_info.
type lineInfo struct {
	_           uint32 // insn_off
	fileNameOff uint32
	_           uint32 // line_off
	lineCol     uint32
}
