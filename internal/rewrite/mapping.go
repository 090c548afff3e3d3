package rewrite

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// mapping is what an entry of the mapping table says about its frames.
type mapping struct {
	known   bool // the rest was filled in
	invalid bool // it is not in the table, or refers to something that is not

	fileName string
	isKernel bool // the file name is one of kernel code (1.1 b)
	isGuest  bool // of a virtual machine's kernel

	buildID string         // in lower case, empty if it has none
	module  *symtab.Module // the one it means, by build id, else by file name
	foreign bool           // its build id is of none that is known (2.1)

	saysNoFunctions bool // pprof.mapping.has_functions is there and false
}

// noMapping stands for the mapping of a frame that has none.
var noMapping = mapping{known: true}

// invalidMapping stands for one that is not in the table.
var invalidMapping = mapping{known: true, invalid: true}

// validMapping reports whether a location may refer to that mapping. Index 0
// means none, and a message without mappings may leave the table out.
func (p *pass) validMapping(index int32) bool {
	return index == 0 || uint(index) < uint(p.mappingTable.Len())
}

// mappingAt returns what is known of a mapping.
func (p *pass) mappingAt(index int32) *mapping {
	n := p.mappingTable.Len()
	if uint(index) >= uint(n) {
		if index == 0 {
			return &noMapping
		}
		return &invalidMapping
	}
	for len(p.mappings) < n {
		p.mappings = append(p.mappings, mapping{})
	}
	m := &p.mappings[index]
	if !m.known {
		p.readMapping(m, int(index))
	}
	return m
}

const (
	// maxBuildID is the length beyond which a build id is no kernel's
	// (BUILD_ID_SIZE_MAX of include/linux/buildid.h is 20 bytes). Many mappings can
	// have one long build id.
	maxBuildID = 128

	// noBuildID stands for one that is too long. It is no module's.
	noBuildID = "-"
)

func (p *pass) readMapping(m *mapping, index int) {
	m.known = true
	table := p.mappingTable.At(index)
	fileName, ok := p.str(table.FilenameStrindex())
	m.invalid = !ok
	indices := table.AttributeIndices()
	buildID, valid := p.attributes.find(indices, attrBuildID)
	if !valid {
		m.invalid = true
	}
	if m.invalid {
		return
	}
	m.fileName = fileName
	m.isGuest = strings.HasPrefix(fileName, "[guest.kernel")
	m.isKernel = p.isKernelFile(fileName)
	if m.buildID = p.stringValue(buildID); len(m.buildID) > maxBuildID {
		m.buildID = noBuildID
	}
	m.buildID = strings.ToLower(m.buildID)
	if hasFunctions, _ := p.attributes.find(indices, attrHasFunctions); hasFunctions >= 0 {
		value := p.attrTable.At(int(hasFunctions)).Value()
		m.saysNoFunctions = value.Type() == pcommon.ValueTypeBool && !value.Bool()
	}
	byName, unique, named := p.known.Snapshot.ModuleByName(moduleName(fileName))
	switch byBuild, ok := p.known.Snapshot.ModuleByBuildID(m.buildID); {
	case ok:
		m.module = byBuild
	case m.buildID != "" && p.knowsBuild():
		m.foreign = true
	case named && !unique && (m.buildID == "" || byName.BuildID == ""):
		// Which of them is a question of when, that a mapping does not answer.
	case m.buildID == "" || named && byName.BuildID == "":
		m.module = byName // nothing says that it is another build
	default:
		m.foreign = true
	}
}

// stringValue returns the value of an attribute, empty if its index is -1 or it
// is not a string.
func (p *pass) stringValue(attr int32) string {
	if attr < 0 {
		return ""
	}
	if v := p.attrTable.At(int(attr)).Value(); v.Type() == pcommon.ValueTypeStr {
		return v.Str()
	}
	return ""
}

// isKernelFile reports whether a mapping with that file name is one of kernel
// code (1.1 b).
func (p *pass) isKernelFile(name string) bool {
	switch {
	case name == "":
		return false
	case strings.HasPrefix(name, "[kernel"), strings.HasPrefix(name, "[guest.kernel"),
		name == "[bpf]", strings.HasPrefix(name, "bpf_prog_"):
		return true
	case name == symtab.KernelName:
		return true
	}
	base, isPath := baseName(name)
	if isPath && strings.HasPrefix(base, symtab.KernelName) {
		return true
	}
	if _, ok := cutModuleSuffix(name); ok {
		return true
	}
	if inner, ok := cutBrackets(name); ok {
		_, _, known := p.known.Snapshot.ModuleByName(inner)
		return known
	}
	return false
}

// moduleName returns the name of the module that a mapping's file name means:
// the kernel's own spelling, without a path, with _ for -.
func moduleName(fileName string) string {
	if strings.HasPrefix(fileName, "[kernel") {
		return symtab.KernelName
	}
	if inner, ok := cutBrackets(fileName); ok {
		return inner
	}
	base, isPath := baseName(fileName)
	if name, ok := cutModuleSuffix(base); ok {
		return strings.ReplaceAll(name, "-", "_")
	}
	if isPath && strings.HasPrefix(base, symtab.KernelName) {
		return symtab.KernelName // a path to an image, as /boot/vmlinux-6.1
	}
	return base
}

// maxName is the length of the longest name of a file (NAME_MAX of
// include/uapi/linux/limits.h). Many mappings can have one long name, and each has a
// look at no more than this of it.
const maxName = 255

// baseName returns what stands behind the last slash of a name, all of it if there is
// none, and nothing if that is longer than names are.
func baseName(name string) (base string, isPath bool) {
	end := name[max(0, len(name)-maxName-1):]
	if slash := strings.LastIndexByte(end, '/'); slash >= 0 {
		return end[slash+1:], true
	}
	if len(end) < len(name) {
		return "", false
	}
	return name, false
}

func cutBrackets(name string) (inner string, ok bool) {
	if len(name) < 3 || len(name) > maxName || name[0] != '[' || name[len(name)-1] != ']' {
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
