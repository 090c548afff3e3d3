// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"cmp"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/index"
	"github.com/kernelsym/kernelsym/internal/scratch"
)

// A Mapping is the content of an entry of the mapping table. Mappings are comparable.
type Mapping struct {
	File                 string
	BuildID              string // in lower case
	FileID               string
	Start, Limit, Offset uint64
	Flags                Flags
	HasMore              bool // it has other attributes, too
}

// Flags are the values of pprof.mapping.has_functions, has_filenames, has_line_numbers and has_inline_frames,
// in this order.
type Flags [4]Flag

// A Flag is the value of a boolean attribute.
type Flag uint8

// The values of a flag.
const (
	FlagAbsent Flag = iota
	FlagFalse
	FlagTrue
)

func flagOf(b bool) Flag {
	if b {
		return FlagTrue
	}
	return FlagFalse
}

// IsOffsets reports whether start, limit and offset are 0, as in mappings whose addresses are offsets.
func (m *Mapping) IsOffsets() bool { return m.Start == 0 && m.Limit == 0 && m.Offset == 0 }

// Longer strings belong to no kernel code: a build id has at most 20 bytes (BUILD_ID_SIZE_MAX in
// include/linux/buildid.h), a path 4096 (PATH_MAX in include/uapi/linux/limits.h). Many mappings of a hostile
// message can share one long string.
const (
	maxID   = 128
	maxPath = 4096
	tooLong = "-" // stands for such a string
)

func shortened(s string, most int) string {
	if len(s) > most {
		return tooLong
	}
	return s
}

// Mappings is the mapping table.
type Mappings struct {
	message  *Message
	table    pprofile.MappingSlice
	entries  []mappingEntry // by index; filled in on demand
	interner interner[Mapping]
}

type mappingEntry struct {
	isRead      bool
	isNone      bool // it is the zero value
	isAmbiguous bool // it, or its file name, may also mean none
	isExact     bool // an entry that is written with the content says the same
	content     Mapping
}

func (t *Mappings) open(m *Message) {
	t.message = m
	t.interner.open(t.table.Len())
	t.entries = scratch.Zeroed(t.entries, t.table.Len())
}

func (t *Mappings) close() {
	clear(t.entries)
	t.table, t.entries = pprofile.MappingSlice{}, t.entries[:0]
}

var noEntry = mappingEntry{isNone: true}

// entry returns an entry, noEntry if there is none with that index.
func (t *Mappings) entry(i int32) *mappingEntry {
	n := t.table.Len()
	if uint(i) >= uint(n) {
		return &noEntry
	}
	if len(t.entries) < n {
		t.entries = append(t.entries, make([]mappingEntry, n-len(t.entries))...)
	}
	e := &t.entries[i]
	if !e.isRead {
		*e = t.read(i)
	}
	return e
}

// read reads an entry. Entry 0 may mean none even if it is not the zero value (contract 1.6).
func (t *Mappings) read(i int32) (e mappingEntry) {
	entry := t.table.At(int(i))
	e.isRead = true
	if i == 0 && isZero(entry) {
		e.isNone = true
		return e
	}
	e.content, e.isExact = t.contentOf(entry)
	e.isAmbiguous = i == 0 || t.message.Strings.isAmbiguous(entry.FilenameStrindex())
	e.isNone = !e.isAmbiguous && e.content == Mapping{}
	return e
}

func isZero(mp pprofile.Mapping) bool {
	return mp.MemoryStart() == 0 && mp.MemoryLimit() == 0 && mp.FileOffset() == 0 && mp.FilenameStrindex() == 0 &&
		mp.AttributeIndices().Len() == 0
}

// contentOf returns the content of an entry. isExact says that an entry with this content says the same: each
// attribute once, and as it came.
func (t *Mappings) contentOf(mp pprofile.Mapping) (c Mapping, isExact bool) {
	attributes := &t.message.Attributes
	c.File = shortened(t.message.Strings.At(mp.FilenameStrindex()), maxPath)
	c.Start, c.Limit, c.Offset = mp.MemoryStart(), mp.MemoryLimit(), mp.FileOffset()
	isExact = true
	var seen [numKinds]bool
	indices := mp.AttributeIndices()
	for i := range indices.Len() {
		index := indices.At(i)
		kind := attributes.Kind(index)
		switch kind {
		case BuildID:
			text := attributes.Value(index).Text
			id := strings.ToLower(shortened(text, maxID))
			c.BuildID = cmp.Or(c.BuildID, id)
			isExact = isExact && id == text && id != ""
		case FileID:
			text := attributes.Value(index).Text
			c.FileID = cmp.Or(c.FileID, shortened(text, maxID))
			isExact = isExact && text != ""
		case HasFunctions, HasFilenames, HasLineNumbers, HasInlined:
			v := attributes.Value(index)
			c.Flags[kind-HasFunctions] = flagOf(v == BoolValue(true))
			isExact = isExact && v.Type == pcommon.ValueTypeBool
		default:
			c.HasMore = true
		}
		isExact = isExact && !seen[kind]
		seen[kind] = true
	}
	c.HasMore = c.HasMore || c.File == tooLong || c.BuildID == tooLong || c.FileID == tooLong
	return c, isExact && !c.HasMore
}

// At returns the content of a mapping, the zero value if there is none with that index. isAmbiguous says that
// the mapping, or its file name, may also mean none (see contract 1.6).
func (t *Mappings) At(i int32) (content *Mapping, isAmbiguous bool) {
	e := t.entry(i)
	return &e.content, e.isAmbiguous
}

// SetRange changes start, limit and offset of a mapping in place. No mapping may have been interned before.
func (t *Mappings) SetRange(i int32, start, limit, offset uint64) {
	mp := t.table.At(int(i))
	mp.SetMemoryStart(start)
	mp.SetMemoryLimit(limit)
	mp.SetFileOffset(offset)
	t.entry(i).isRead = false
}

// Range returns start, limit and offset of a mapping.
func (t *Mappings) Range(i int32) (start, limit, offset uint64) {
	mp := t.table.At(int(i))
	return mp.MemoryStart(), mp.MemoryLimit(), mp.FileOffset()
}

// Len returns the number of mappings.
func (t *Mappings) Len() int { return t.table.Len() }

// IsNone reports whether an index certainly stands for no mapping.
func (t *Mappings) IsNone(i int32) bool { return t.entry(i).isNone }

// NoneIsZero reports whether index 0 certainly stands for no mapping, so that it can be written.
func (t *Mappings) NoneIsZero() bool { return t.IsNone(0) }

// None returns an index that stands for no mapping. Where index 0 may mean one (see contract 1.6), that is the index of an
// entry that says nothing, which is appended if there is none. None takes time in proportion to the table.
func (t *Mappings) None() int32 {
	for i := range int32(t.table.Len()) {
		if t.entry(i).isNone {
			return i
		}
	}
	if t.table.Len() == 0 {
		return 0
	}
	return t.append(Mapping{})
}

// CanCopy reports whether a mapping can be appended with other flags: nothing is lost, the copy is found again,
// and no backend refuses it for attributes without a file ID.
func (t *Mappings) CanCopy(i int32) bool {
	e := t.entry(i)
	return !e.isAmbiguous && e.isExact && isFoundAgain(e.content.File) && e.content.FileID != ""
}

// isFoundAgain reports whether mappings with a file name can be found. Most names are paths of user-space
// files, which are never interned.
func isFoundAgain(file string) bool { return file != "" && file[0] != '/' }

// Intern returns the index of a mapping, whose file name must not begin with a slash.
func (t *Mappings) Intern(c Mapping) int32 {
	at, _ := t.interner.intern(t, c, true)
	return at
}

func (t *Mappings) content(i int32) (c Mapping, isFindable bool) {
	if i == 0 || !isFoundAgain(t.message.Strings.At(t.table.At(int(i)).FilenameStrindex())) {
		return Mapping{}, false
	}
	e := t.entry(i)
	return e.content, !e.isAmbiguous
}

func (t *Mappings) has(i int32, c Mapping) bool { return t.entry(i).content == c }

func (t *Mappings) hash(c Mapping) uint64 {
	h := index.Mix(index.Mix(index.String(c.File), index.String(c.BuildID)), index.String(c.FileID))
	return index.Mix(index.Mix(index.Mix(h, c.Start), c.Limit), c.Offset)
}

func (t *Mappings) append(c Mapping) int32 {
	if t.table.Len() == 0 {
		t.table.AppendEmpty() // index 0 means none
	}
	mp := t.table.AppendEmpty()
	mp.SetFilenameStrindex(t.message.Strings.Intern(c.File))
	mp.SetMemoryStart(c.Start)
	mp.SetMemoryLimit(c.Limit)
	mp.SetFileOffset(c.Offset)
	indices, attributes := mp.AttributeIndices(), &t.message.Attributes
	if c.BuildID != "" {
		indices.Append(attributes.Intern(BuildID, TextValue(c.BuildID)))
	}
	if c.FileID != "" {
		indices.Append(attributes.Intern(FileID, TextValue(c.FileID)))
	}
	for i, flag := range c.Flags {
		if flag != FlagAbsent {
			indices.Append(attributes.Intern(HasFunctions+Kind(i), BoolValue(flag == FlagTrue)))
		}
	}
	return int32(t.table.Len() - 1)
}

// FlagsOf returns the right values of the flags of a location's mapping (contract 4.4), for the flags that the message
// uses.
// hasFunctions says whether functions are known for the code of the mapping.
func (m *Message) FlagsOf(loc pprofile.Location, hasFunctions bool) (flags Flags) {
	if !m.Attributes.Uses(HasFunctions, HasFilenames, HasLineNumbers, HasInlined) {
		return flags
	}
	var hasFiles, hasNumbers bool
	lines := loc.Lines()
	for i := range lines.Len() {
		line := lines.At(i)
		hasNumbers = hasNumbers || line.Line() != 0
		hasFiles = hasFiles || m.Functions.At(line.FunctionIndex()).File != ""
	}
	for i, is := range [...]bool{hasFunctions || lines.Len() > 0, hasFiles, hasNumbers, lines.Len() > 1} {
		if m.Attributes.Uses(HasFunctions + Kind(i)) {
			flags[i] = flagOf(is)
		}
	}
	return flags
}
