// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"strings"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// readName finds out what the file name means (contract 1.1b).
func (mp *mapping) readName() {
	name := mp.content.fileName
	base, isPath := baseName(name)
	inner, bracketed := cutBrackets(name)
	module, isModule := cutModuleSuffix(base)
	switch {
	case name == "":
	case strings.HasPrefix(name, "[guest.kernel"):
		mp.isKernel, mp.isGuest = true, true
	case strings.HasPrefix(name, "[kernel"): // of which image, it does not say
		mp.isKernel = true
	case base == timeline.KernelName, strings.HasPrefix(base, timeline.KernelName+"-"):
		mp.isKernel, mp.module = true, timeline.KernelName
	case name == "[bpf]", strings.HasPrefix(name, "bpf_prog_"):
		mp.isKernel = true
	case isModule:
		mp.isKernel, mp.module = true, strings.ReplaceAll(module, "-", "_")
	case bracketed:
		mp.bracketed, mp.module = true, inner
	case !isPath:
		mp.module = base
	}
}

// mayBeCore reports whether the file name may be that of a core kernel, or of no file that is
// known. Code of BPF is none.
func (mp *mapping) mayBeCore() bool {
	name := mp.content.fileName
	return mp.vague || mp.module == timeline.KernelName || mp.module == "" && name != functionFiles[0] && !strings.HasPrefix(name, "bpf_prog_")
}

// baseName returns what stands behind the last slash of a name, all of it if there is
// none.
func baseName(name string) (base string, isPath bool) {
	slash := strings.LastIndexByte(name, '/')
	return name[slash+1:], slash >= 0
}

func cutBrackets(name string) (inner string, ok bool) {
	if len(name) < 3 || name[0] != '[' || name[len(name)-1] != ']' {
		return "", false
	}
	return name[1 : len(name)-1], true
}

// cutModuleSuffix removes what the name of a module's file ends in.
func cutModuleSuffix(name string) (string, bool) {
	for _, suffix := range [...]string{".ko", ".ko.gz", ".ko.xz", ".ko.zst"} {
		if rest, ok := strings.CutSuffix(name, suffix); ok {
			return rest, true
		}
	}
	return name, false
}
