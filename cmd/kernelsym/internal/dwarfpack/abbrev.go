// SPDX-License-Identifier: Apache-2.0

package dwarfpack

import "fmt"

// A slot is the number of an attribute that this package needs.
type slot uint8

const (
	slotNone slot = iota
	slotSibling
	slotName
	slotLinkageName
	slotStmtList
	slotLowPC
	slotHighPC
	slotRanges
	slotLanguage
	slotCompDir
	slotOrigin
	slotSpecification
	slotDeclFile
	slotDeclLine
	slotCallFile
	slotCallLine
	slotStrOffsetsBase
	slotAddrBase
	slotRnglistsBase
	slotDwoName
	numSlots
)

// slots maps attributes to their slots (section 7.5.4 of DWARF 5).
var slots = map[uint64]slot{
	0x01: slotSibling, 0x03: slotName, 0x10: slotStmtList, 0x11: slotLowPC, 0x12: slotHighPC, 0x13: slotLanguage,
	0x1b: slotCompDir, 0x31: slotOrigin, 0x3a: slotDeclFile, 0x3b: slotDeclLine, 0x47: slotSpecification,
	0x55: slotRanges, 0x58: slotCallFile, 0x59: slotCallLine, 0x6e: slotLinkageName, 0x72: slotStrOffsetsBase,
	0x73: slotAddrBase, 0x74: slotRnglistsBase, 0x76: slotDwoName,
	0x2007: slotLinkageName, // DW_AT_MIPS_linkage_name, before DWARF 4
	0x2130: slotDwoName,     // DW_AT_GNU_dwo_name, before DWARF 5
}

// A kind determines how an entry is processed.
type kind uint8

const (
	kindPlain  kind = iota // irrelevant; its children may be relevant
	kindOpaque             // irrelevant, with its children
	kindType               // irrelevant; in C, with its children
	kindSubprogram
	kindInlined
	kindPartial // a unit of entries that other units refer to; it has no code, although it has their line table
)

// kinds maps tags to kinds (section 7.5.3 of DWARF 5).
var kinds = map[uint64]kind{
	0x01: kindOpaque, // array_type
	0x02: kindType,   // class_type
	0x04: kindOpaque, // enumeration_type
	0x13: kindType,   // structure_type
	0x15: kindOpaque, // subroutine_type
	0x17: kindType,   // union_type
	0x1d: kindInlined,
	0x2e: kindSubprogram,
	0x3c: kindPartial,
	0x48: kindOpaque, // call_site

	0x4109: kindOpaque, // GNU_call_site
}

// An attribute is an attribute of an abbreviation.
type attribute struct {
	slot     slot
	form     form
	implicit uint64 // the value, for formImplicitConst
}

// A step skips a number of bytes, and then a value without a fixed size.
type step struct {
	fixed uint32
	form  form // 0 after the last value
}

// An abbreviation describes the structure of entries.
type abbreviation struct {
	kind       kind
	children   bool
	sibling    int // offset of a 4-byte DW_AT_sibling; variable if there is none or its offset is not fixed
	size       int // size of the attributes; variable if it is not fixed
	attributes []attribute
	steps      []step // nil if the size is fixed
}

// abbreviations holds the abbreviations of a unit.
type abbreviations struct {
	dense  []*abbreviation // by code, as far as codes are consecutive
	sparse map[uint64]*abbreviation
}

func (a *abbreviations) get(code uint64) *abbreviation {
	if code < uint64(len(a.dense)) {
		return a.dense[code]
	}
	return a.sparse[code]
}

// maxAbbrevLen bounds the length in bytes of the abbreviations of a unit. For one source file, they
// take a few thousand bytes.
const maxAbbrevLen = 1 << 22

// abbreviations reads the abbreviations that begin at the position of r.
func (r *reader) abbreviations(in format) (*abbreviations, error) {
	table := &abbreviations{dense: make([]*abbreviation, 1, 256), sparse: map[uint64]*abbreviation{}}
	var attributes []attribute // of all abbreviations
	r.data = r.data[:min(len(r.data), r.pos+maxAbbrevLen)]
	for {
		code := r.uleb()
		if code == 0 {
			break
		}
		a := &abbreviation{kind: kinds[r.uleb()], children: r.uint(1) != 0}
		from := len(attributes)
		for {
			name, f := r.uleb(), r.uleb()
			if name == 0 && f == 0 {
				break
			}
			attr := attribute{slot: slots[name], form: form(f)}
			if f > 0xffff {
				return nil, fmt.Errorf("%w: form %#x", ErrUnsupported, f)
			}
			if attr.form == formImplicitConst {
				attr.implicit = uint64(r.sleb())
			}
			attributes = append(attributes, attr)
		}
		a.attributes = attributes[from:len(attributes):len(attributes)]
		if err := a.measure(in); err != nil {
			return nil, err
		}
		if code == uint64(len(table.dense)) {
			table.dense = append(table.dense, a)
		} else if table.get(code) == nil {
			table.sparse[code] = a
		}
	}
	if r.short {
		return nil, errShort
	}
	return table, nil
}

// measure computes how to skip an entry.
func (a *abbreviation) measure(in format) error {
	a.sibling = variable
	fixed := 0
	for _, attr := range a.attributes {
		n, ok := attr.form.size(in)
		switch {
		case !ok:
			return fmt.Errorf("%w: %v", ErrUnsupported, attr.form)
		case n == variable:
			a.steps = append(a.steps, step{uint32(fixed), attr.form})
			fixed = 0
			continue
		case attr.slot == slotSibling && attr.form == formRef4 && a.steps == nil:
			a.sibling = fixed
		}
		fixed += n
	}
	a.size = fixed
	if a.steps != nil {
		a.steps, a.size = append(a.steps, step{uint32(fixed), 0}), variable
	}
	return nil
}
