// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// mapping is what an entry of the mapping table says about its frames.
type mapping struct {
	known    bool // the rest was filled in
	isKernel bool // the file name is one of kernel code (contract 1.1b)
	isGuest  bool // of a virtual machine's kernel
	exact    bool // the content is all that it says, as it came
	content  mappingContent

	module    string // the name of the module that the file name means
	bracketed bool   // the file name is "[module]": of kernel code if there is such a module
	vague     bool   // it, or its file name, may also mean nothing (contract 1.6)
}

// mappings is what is known of the mapping table, and appends to it what is not there
// yet.
type mappings struct {
	all     []mapping // by index, those that were asked for
	index   index     // those of kernel code
	hasNone bool      // index 0 can only mean that there is no mapping (contract 1.6)
}

// noMapping stands for the mapping of a frame that has none.
var noMapping = mapping{known: true}

// at returns what is known of a mapping.
func (t *mappings) at(m *message, index int32) *mapping {
	n := m.mappings.Len()
	if uint(index) >= uint(n) {
		return &noMapping
	}
	if len(t.all) < n {
		t.all = slices.Grow(t.all, n-len(t.all))[:n] // what was there is cleared
	}
	mp := &t.all[index]
	if !mp.known {
		mp.known = true
		entry := m.mappings.At(int(index))
		if index == 0 && isEmpty(entry) {
			return mp
		}
		mp.content, mp.exact = contentOf(m, entry)
		mp.readName()
		mp.vague = index == 0 || entry.FilenameStrindex() == 0 && m.str(0) != ""
	}
	return mp
}

// functionFiles are the file names of mappings of code that belongs to no module: what
// the kernel's list of symbols has in brackets.
var functionFiles = [...]string{"[bpf]", "[__builtin__ftrace]", "[__builtin__kprobes]"}

func functionFile(image *timeline.Image) string {
	switch {
	case image.Origin != timeline.OriginOOL:
		return functionFiles[0]
	case strings.HasPrefix(image.Name(), "ftrace"):
		return functionFiles[1]
	}
	return functionFiles[2]
}

// placing says how a location's address counts, and what else its mapping has to say.
type placing struct {
	image    *timeline.Image
	relative bool // the address counts from the image's base
	bare     bool // no ids: text that has no relative form
	has      hasFlags
}

// content returns what the mapping of a location says (contract 4.2, 4.3).
func (p placing) content() (c mappingContent) {
	image := p.image
	if image.Text != nil {
		c.fileName = image.Name()
	} else {
		c.fileName = functionFile(image)
	}
	if p.bare {
		return c
	}
	if !p.relative {
		c.start, c.limit = image.Start, image.End
	}
	switch {
	case image.Text == nil && p.relative:
		c.fileID = buildid.SymbolFileID(image.Name())
	case image.Text == nil:
		c.fileID = image.LoadedFileID()
	case image.BuildID() != "" && p.relative:
		c.buildID, c.fileID = image.BuildID(), image.Text.FileID
	case image.BuildID() != "":
		c.buildID, c.fileID = image.BuildID(), image.LoadedFileID()
	}
	if c.fileID != "" { // devfiler refuses attributes without one
		c.has = p.has
	}
	return c
}

// intern returns the index of the mapping with that content, which is appended if it is
// not there.
func (t *mappings) intern(m *message, c mappingContent) int32 {
	is := func(c *mappingContent) func(int32) bool {
		return func(pos int32) bool { return t.at(m, pos).content == *c }
	}
	if !t.index.built {
		t.index.resetAgain()
		for i := 1; i < m.mappings.Len(); i++ {
			if !isIndexed(m.str(m.mappings.At(i).FilenameStrindex())) {
				continue
			}
			if mp := t.at(m, int32(i)); !mp.vague {
				t.index.add(mp.content.hash(), int32(i), is(&mp.content))
			}
		}
	}
	hash := c.hash()
	at, ok := t.index.find(hash, is(&c))
	if !ok {
		at = t.append(m, c)
		t.index.addNew(hash, at)
	}
	return at
}

// canBeCopied reports whether a mapping that came can be appended with other values of
// pprof.mapping.has_*: nothing is lost, an equal one is found, and no backend refuses it.
func (mp *mapping) canBeCopied() bool {
	return !mp.vague && mp.exact && isIndexed(mp.content.fileName) && mp.content.fileID != ""
}

// isIndexed reports whether mappings with a file name are found again. None of ours begins
// with a slash, as most do.
func isIndexed(name string) bool { return name != "" && name[0] != '/' }

func (t *mappings) append(m *message, c mappingContent) int32 {
	if m.mappings.Len() == 0 {
		m.mappings.AppendEmpty() // index 0 is the zero value
	}
	mp := m.mappings.AppendEmpty()
	name, _ := m.strs.intern(&m.dictionary, c.fileName)
	mp.SetFilenameStrindex(name)
	mp.SetMemoryStart(c.start)
	mp.SetMemoryLimit(c.limit)
	mp.SetFileOffset(c.offset)
	indices := mp.AttributeIndices()
	if c.buildID != "" {
		indices.Append(m.attributes.intern(m, attrBuildID, textValue(c.buildID)))
	}
	if c.fileID != "" {
		indices.Append(m.attributes.intern(m, attrFileID, textValue(c.fileID)))
	}
	for i, has := range c.has {
		if has != attrAbsent {
			indices.Append(m.attributes.intern(m, attrHasFunctions+attribute(i), boolValue(has == attrTrue)))
		}
	}
	return int32(m.mappings.Len() - 1)
}
