// SPDX-License-Identifier: Apache-2.0

package symbolize

import (
	"strings"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A Mapping describes the file that a frame's code comes from, as the producer sent it. [NewMapping] makes one.
type Mapping struct {
	File                 string
	BuildID              string // GNU build id in lower-case hex, empty if there is none
	FileID               string // process.executable.build_id.htlhash, empty if there is none
	Start, Limit, Offset uint64

	// MayBeNone says that the mapping, or its file name, may also mean that there is none (see contract 1.6).
	MayBeNone bool

	name fileName

	isLocated bool
	image     *timeline.Image // that the ids or the name identify; nil if there is none. Valid if isLocated
}

// NoMapping is the mapping of a frame that came without one.
var NoMapping = &Mapping{isLocated: true}

// NewMapping returns a mapping that says what m says. Frames of one [Kernel] alone may have it.
func NewMapping(m Mapping) Mapping {
	m.name = readFileName(m.File)
	return m
}

// fileName is the meaning of the file name of a mapping (see contract 1.1b, 2).
type fileName struct {
	isKernel  bool   // the code is kernel code
	isGuest   bool   // it is the kernel of a virtual machine
	inBracket bool   // the name is "[module]", and it is kernel code if there is such a module
	isBPF     bool   // it is BPF code
	module    string // the image that relative addresses count from: a module, or timeline.KernelName
}

func readFileName(file string) (n fileName) {
	base := file[strings.LastIndexByte(file, '/')+1:]
	module, isModule := cutModuleSuffix(base)
	switch inner, inBrackets := cutBrackets(file); {
	case file == "":
	case strings.HasPrefix(file, "[guest.kernel"):
		n.isKernel, n.isGuest = true, true
	case strings.HasPrefix(file, "[kernel"): // parca-agent gives this name to modules, too
		n.isKernel = true
	case base == timeline.KernelName, strings.HasPrefix(base, timeline.KernelName+"-"):
		n.isKernel, n.module = true, timeline.KernelName
	case file == "[bpf]", strings.HasPrefix(file, "bpf_prog_"):
		n.isKernel, n.isBPF = true, true
	case isModule:
		n.isKernel, n.module = true, spelled(module)
	case inBrackets:
		n.inBracket, n.module = true, inner
	case base == file:
		n.module = base
	}
	return n
}

// spelled returns a module's name as the kernel spells it. A longer name than MODULE_NAME_LEN (include/linux/module.h)
// allows is none: many mappings of a hostile message can share it.
func spelled(module string) string {
	const maxModuleName = 64
	if len(module) >= maxModuleName {
		return module
	}
	return strings.ReplaceAll(module, "-", "_")
}

func cutBrackets(name string) (inner string, ok bool) {
	if len(name) < 3 || name[0] != '[' || name[len(name)-1] != ']' {
		return "", false
	}
	return name[1 : len(name)-1], true
}

// cutModuleSuffix removes the suffix of a module's file.
func cutModuleSuffix(name string) (string, bool) {
	for _, suffix := range [...]string{".ko", ".ko.gz", ".ko.xz", ".ko.zst"} {
		if module, ok := strings.CutSuffix(name, suffix); ok {
			return module, true
		}
	}
	return name, false
}

// hasID reports whether the mapping identifies a build.
func (m *Mapping) hasID() bool { return m.BuildID != "" || m.FileID != "" }

// namesModule reports whether the file name alone identifies the module of the code.
func (m *Mapping) namesModule() bool {
	return !m.MayBeNone && !m.hasID() && m.name.module != "" && m.name.module != timeline.KernelName
}

// isLookedUpForm reports whether a relative address in the mapping is in looked-up form (see contract 2.2).
func (m *Mapping) isLookedUpForm() bool { return m.Start == 0 && m.Limit == 0 && m.Offset == 0 }

// mayBeCore reports whether the code may belong to a core kernel, as far as the file name says.
func (m *Mapping) mayBeCore() bool {
	return m.MayBeNone || m.name.module == timeline.KernelName || m.name.module == "" && !m.name.isBPF
}
