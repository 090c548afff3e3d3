//go:build linux && (amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x)

package bpf

import "unsafe"

// These structs have pointers where the kernel has __aligned_u64, which is why
// machines of 32 bits are left out.

// programInfo is struct bpf_prog_info.
type programInfo struct {
	programType          uint32
	id                   uint32
	tag                  [8]byte
	jitedProgLen         uint32
	xlatedProgLen        uint32
	jitedProgInsns       uint64
	xlatedProgInsns      uint64
	loadTime             uint64 // nanoseconds of CLOCK_BOOTTIME
	createdByUID         uint32
	nrMapIDs             uint32
	mapIDs               uint64
	name                 [16]byte
	ifindex              uint32
	gplCompatible        uint32
	netnsDev             uint64
	netnsIno             uint64
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
}

// btfInfo is struct bpf_btf_info.
type btfInfo struct {
	btf       unsafe.Pointer
	btfSize   uint32
	id        uint32
	name      uint64
	nameLen   uint32
	kernelBTF uint32
}

// funcInfo is struct bpf_func_info.
type funcInfo struct {
	insnOff uint32
	typeID  uint32
}

// lineInfo is struct bpf_line_info.
type lineInfo struct {
	insnOff     uint32
	fileNameOff uint32
	lineOff     uint32
	lineCol     uint32
}
