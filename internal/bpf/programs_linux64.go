// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x)

package bpf

import (
	"bytes"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kernelsym/kernelsym/internal/btf"
)

// buffers receive the kernel's information about a program.
type buffers struct {
	ksyms     []uint64
	lens      []uint32
	tags      [][8]byte
	functions []funcInfo
	lines     []lineInfo
	jited     []uint64
}

// Program returns the program with that id, with the details that want asks for. ErrGone means
// that the program no longer exists, ErrHidden that the kernel hides addresses.
func (r *Reader) Program(id uint32, want Want) (*Program, error) {
	fd, err := open(unix.BPF_PROG_GET_FD_BY_ID, id)
	if err != nil {
		return nil, programError(id, err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	var info *programInfo
	for {
		info = r.ask(want)
		if err := getInfo(fd, info); err != nil {
			return nil, programError(id, err)
		}
		if !r.grow(info, want) {
			break
		}
	}
	if info.nrJitedKsyms > 0 && info.jitedKsyms == nil {
		return nil, ErrHidden
	}
	return r.program(info, want), nil
}

func programError(id uint32, err error) error {
	if isGone(err) {
		return ErrGone
	}
	return fmt.Errorf("BPF program %d: %w", id, err)
}

// ask returns a struct that asks for as much as the buffers can hold.
func (r *Reader) ask(want Want) *programInfo {
	b := &r.buffers
	if b.ksyms == nil {
		b.makeRoom(16, 256)
	}
	info := &r.info
	*info = programInfo{}
	info.nrJitedKsyms, info.jitedKsyms = uint32(len(b.ksyms)), pointer(b.ksyms)
	if want&WantFunctions != 0 {
		info.nrJitedFuncLens, info.jitedFuncLens = uint32(len(b.lens)), pointer(b.lens)
		info.nrProgTags, info.progTags = uint32(len(b.tags)), pointer(b.tags)
		info.nrFuncInfo, info.funcInfo = uint32(len(b.functions)), pointer(b.functions)
		info.funcInfoRecSize = uint32(unsafe.Sizeof(funcInfo{}))
	}
	if want&WantLines != 0 {
		info.nrLineInfo, info.lineInfo = uint32(len(b.lines)), pointer(b.lines)
		info.lineInfoRecSize = uint32(unsafe.Sizeof(lineInfo{}))
		info.nrJitedLineInfo, info.jitedLineInfo = uint32(len(b.jited)), pointer(b.jited)
		info.jitedLineInfoRecSize = uint32(unsafe.Sizeof(uint64(0)))
	}
	return info
}

// grow reports whether the buffers were too small, and enlarges them.
func (r *Reader) grow(info *programInfo, want Want) bool {
	functions, lines := info.nrJitedKsyms, uint32(0)
	if want&WantFunctions != 0 {
		functions = max(functions, info.nrJitedFuncLens, info.nrProgTags, info.nrFuncInfo)
	}
	if want&WantLines != 0 {
		lines = max(info.nrLineInfo, info.nrJitedLineInfo)
	}
	// The verifier has far lower limits (BPF_MAX_SUBPROGS, BPF_COMPLEXITY_LIMIT_INSNS).
	const maxFunctions, maxLines = 1 << 16, 1 << 22
	b := &r.buffers
	if int(functions) <= len(b.ksyms) && int(lines) <= len(b.lines) || functions > maxFunctions || lines > maxLines {
		return false
	}
	b.makeRoom(max(len(b.ksyms), int(functions)), max(len(b.lines), int(lines)))
	return true
}

func (b *buffers) makeRoom(functions, lines int) {
	b.ksyms, b.lens = make([]uint64, functions), make([]uint32, functions)
	b.tags, b.functions = make([][8]byte, functions), make([]funcInfo, functions)
	b.lines, b.jited = make([]lineInfo, lines), make([]uint64, lines)
}

// program converts the information that the kernel wrote.
func (r *Reader) program(info *programInfo, want Want) *Program {
	b := &r.buffers
	name, _, _ := bytes.Cut(info.name[:], []byte{0})
	p := &r.result
	if string(name) != p.Name { // the next program often has the same name
		p.Name = string(name)
	}
	*p = Program{
		ID: info.id, Type: info.programType, Tag: info.tag, Name: p.Name,
		LoadTime: int64(info.loadTime), BTF: info.btfID, Creator: info.createdByUID,
		Stats:     Stats{Runs: info.runs, RunTime: info.runTime},
		Functions: p.Functions[:0], Lines: p.Lines[:0],
	}
	ksyms := b.ksyms[:min(int(info.nrJitedKsyms), len(b.ksyms))]
	for i, addr := range ksyms {
		f := Function{Addr: addr}
		if want&WantFunctions != 0 {
			if i < int(info.nrJitedFuncLens) {
				f.Len = b.lens[i]
			}
			if i < int(info.nrProgTags) {
				f.Tag = b.tags[i]
			}
			if i < int(info.nrFuncInfo) {
				f.Type = b.functions[i].typeID
			}
		}
		p.Functions = append(p.Functions, f)
	}
	if want&WantLines != 0 {
		n := min(int(info.nrLineInfo), int(info.nrJitedLineInfo), len(b.lines))
		for i := range n {
			p.Lines = append(p.Lines, Line{
				Addr: b.jited[i], File: b.lines[i].fileNameOff, LineCol: b.lines[i].lineCol,
			})
		}
	}
	return p
}

// BTF returns the BTF object with that id. Its memory belongs to the reader: it is valid until
// the next call to BTF.
func (r *Reader) BTF(id uint32) (*btf.BTF, error) {
	data, err := readBTF(id, &r.btfInfo, r.btf)
	if err != nil {
		return nil, btfError(id, err)
	}
	r.btf = data[:cap(data)]
	return btf.Parse(data)
}

// ModuleBTF returns the name of the module that has the BTF object with that id, and the BTF, which continues that of
// the core kernel. It has memory of its own. It requires CAP_SYS_ADMIN.
func (*Reader) ModuleBTF(id uint32, core *btf.BTF) (module string, types *btf.BTF, err error) {
	const moduleNameLen = 64 // MODULE_NAME_LEN of include/linux/module.h
	var name [moduleNameLen]byte
	info := &btfInfo{name: pointer(name[:]), nameLen: moduleNameLen}
	data, err := readBTF(id, info, nil)
	if err != nil {
		return "", nil, btfError(id, err)
	}
	if info.kernel == 0 {
		return "", nil, btfError(id, fmt.Errorf("%w: of no module", btf.ErrMalformed))
	}
	types, err = btf.ParseSplit(data, core)
	module, _, _ = strings.Cut(string(name[:]), "\x00")
	return module, types, err
}

// readBTF reads the BTF object with that id into a buffer, or a new one if it is too short, and what info asks for beside it.
func readBTF(id uint32, info *btfInfo, buffer []byte) ([]byte, error) {
	fd, err := open(unix.BPF_BTF_GET_FD_BY_ID, id)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	for wanted := *info; ; {
		*info = wanted
		info.btf, info.btfSize = pointer(buffer), uint32(len(buffer))
		if err := getInfo(fd, info); err != nil {
			return nil, err
		}
		size := int(info.btfSize)
		if size <= len(buffer) {
			return buffer[:size], nil
		}
		if size > maxBTF {
			return nil, fmt.Errorf("%w: %d bytes", btf.ErrMalformed, size)
		}
		buffer = make([]byte, size+size/4)
	}
}

// maxBTF is BTF_MAX_SIZE of include/linux/btf.h of Linux 6.12, which was 16 MiB
// then.
const maxBTF = 64 << 20

func btfError(id uint32, err error) error {
	if isGone(err) {
		return ErrGone
	}
	return fmt.Errorf("BTF %d: %w", id, err)
}

// A Reader asks the kernel for programs. It reuses its memory for the next one. Its zero value
// is ready for use. It is not safe for concurrent use.
type Reader struct {
	info    programInfo
	buffers buffers
	result  Program
	btfInfo btfInfo
	btf     []byte
}
