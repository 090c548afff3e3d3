// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"cmp"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// mappingContent is all that a mapping of ours says. Two of them are equal if it is.
type mappingContent struct {
	fileName     string
	buildID      string // in lower case
	fileID       string
	start, limit uint64
	offset       uint64
	has          hasFlags
	hasMore      bool // it says more than this
}

// hasFlags are pprof.mapping.has_functions, _filenames, _line_numbers and _inline_frames.
type hasFlags [4]attrBool

// attrBool is the value of a boolean attribute.
type attrBool uint8

const (
	attrAbsent attrBool = iota
	attrFalse
	attrTrue
)

func boolOf(b bool) attrBool {
	if b {
		return attrTrue
	}
	return attrFalse
}

// isRelative reports whether the mapping's addresses are in looked-up form: offsets from
// a module's base, as kernelsym writes them (contract 2.2).
func (c *mappingContent) isRelative() bool { return c.start == 0 && c.limit == 0 && c.offset == 0 }

// hasID reports whether it identifies a build.
func (c *mappingContent) hasID() bool { return c.buildID != "" || c.fileID != "" }

// What is longer than these is no kernel's: BUILD_ID_SIZE_MAX of include/linux/buildid.h
// is 20 bytes, PATH_MAX of include/uapi/linux/limits.h 4096. Many mappings can have one
// long string.
const (
	maxID   = 128
	maxPath = 4096
)

// tooLong stands for such a string.
const tooLong = "-"

// shortened returns s, or tooLong if it is.
func shortened(s string, most int) string {
	if len(s) > most {
		return tooLong
	}
	return s
}

// contentOf returns what a mapping says, and whether a mapping that is written with it says
// the same: each attribute once, and as it came.
func contentOf(m *message, mp pprofile.Mapping) (c mappingContent, exact bool) {
	c.fileName = shortened(m.str(mp.FilenameStrindex()), maxPath)
	c.start, c.limit, c.offset = mp.MemoryStart(), mp.MemoryLimit(), mp.FileOffset()
	indices := mp.AttributeIndices()
	var seen [numAttributes]bool
	exact = true
	for i := range indices.Len() {
		index := indices.At(i)
		kind := m.attributes.kind(index)
		var value attrValue
		switch kind {
		case attrBuildID:
			value = m.attributes.value(&m.dictionary, index)
			id := strings.ToLower(shortened(value.text, maxID))
			c.buildID = cmp.Or(c.buildID, id)
			exact = exact && id == value.text && id != ""
		case attrFileID:
			value = m.attributes.value(&m.dictionary, index)
			c.fileID = cmp.Or(c.fileID, shortened(value.text, maxID))
			exact = exact && value.text != ""
		case attrHasFunctions, attrHasFilenames, attrHasLineNumbers, attrHasInlined:
			value = m.attributes.value(&m.dictionary, index)
			c.has[kind-attrHasFunctions] = boolOf(value == boolValue(true))
			exact = exact && value.is == pcommon.ValueTypeBool
		default:
			c.hasMore = true
		}
		exact = exact && !seen[kind]
		seen[kind] = true
	}
	c.hasMore = c.hasMore || c.fileName == tooLong || c.buildID == tooLong || c.fileID == tooLong
	return c, exact && !c.hasMore
}

// isRight reports whether a mapping that a location came with says what it should.
func (c *mappingContent) isRight(want *mappingContent) bool {
	if c.fileName != want.fileName || c.buildID != want.buildID || c.fileID != want.fileID || c.offset != want.offset {
		return false
	}
	if want.fileID == "" && (c.has != want.has || c.hasMore) {
		return false
	}
	for i, has := range c.has {
		if has == attrFalse && want.has[i] == attrTrue || has == attrTrue && want.has[i] == attrFalse {
			return false
		}
	}
	if want.isRelative() {
		return c.isRelative()
	}
	return c.start <= want.start && want.limit <= c.limit
}

func (c *mappingContent) hash() uint64 {
	h := mix(mix(hashString(c.fileName), hashString(c.buildID)), hashString(c.fileID))
	return mix(mix(mix(h, c.start), c.limit), c.offset)
}
