// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// A Range is the pack addresses from Start up to, but not including, End.
type Range struct{ Start, End uint32 }

// Contains reports whether an address is in the range.
func (r Range) Contains(addr uint32) bool { return addr-r.Start < r.End-r.Start }

// Info says which build a pack describes, and where its code lies.
type Info struct {
	BuildID string // GNU build id in lower-case hex, 16 to 64 digits
	Name    string // KernelName, or the module's name as the kernel writes it: "nf_tables"
	Arch    string // as in GOARCH
	Release string // kernel release, as uname -r prints it; empty if it is not known

	// Text and Stext are the addresses of _text and _stext of the core kernel before it is
	// relocated; 0 for a module.
	Text, Stext uint64

	Base     uint32    // where relative addresses begin (contract 2); for a module, its .text
	Extent   Range     // the image's addresses
	Gap      Range     // addresses between text and init text that are not the image's
	Marks    Marks     // landmarks of the core kernel
	Sections []Section // executable sections of a module, in order; at most 4,096
}

// Marks are the landmarks of the core kernel; symtab.Landmarks explains them.
type Marks struct {
	Entry, Fred Range
	Thunks      []Range // in the order of their addresses, at most 4,096
}

// A Section is an executable section of a module.
type Section struct {
	Name  string
	Range Range
}

// IsBuildID reports whether a string can be the build id of a pack. No other string ever
// becomes part of a file name or URL (contract 10.3).
func IsBuildID(s string) bool {
	const digits = "0123456789abcdef"
	return len(s) >= 16 && len(s) <= 64 && strings.Trim(s, digits) == ""
}

// check returns an error if the information is invalid.
func (i *Info) check() error {
	switch {
	case !IsBuildID(i.BuildID):
		return fmt.Errorf("build id %.80q", i.BuildID)
	case i.Name == "" || strings.ContainsAny(i.Name, "/\x00"):
		return fmt.Errorf("name %.80q", i.Name)
	case len(i.Marks.Thunks) > maxRanges:
		return fmt.Errorf("%d thunks, more than %d", len(i.Marks.Thunks), maxRanges)
	case len(i.Sections) > maxRanges:
		return fmt.Errorf("%d sections, more than %d", len(i.Sections), maxRanges)
	}
	ranges := append([]Range{i.Extent, i.Gap, i.Marks.Entry, i.Marks.Fred}, i.Marks.Thunks...)
	for _, s := range i.Sections {
		ranges = append(ranges, s.Range)
	}
	for _, r := range ranges {
		if r.Start > r.End {
			return fmt.Errorf("addresses %#x to %#x", r.Start, r.End)
		}
	}
	for k := range max(1, len(i.Marks.Thunks)) - 1 {
		if i.Marks.Thunks[k].End > i.Marks.Thunks[k+1].Start {
			return fmt.Errorf("thunks that are not in order at %#x", i.Marks.Thunks[k].End)
		}
	}
	return nil
}

// appendTo appends the information in the format of the file.
func (i *Info) appendTo(b []byte) []byte {
	for _, s := range []string{i.BuildID, i.Name, i.Arch, i.Release} {
		b = appendString(b, s)
	}
	b = binary.LittleEndian.AppendUint64(b, i.Text)
	b = binary.LittleEndian.AppendUint64(b, i.Stext)
	b = appendUint(b, i.Base)
	b = appendRanges(b, i.Extent, i.Gap, i.Marks.Entry, i.Marks.Fred)
	b = appendUint(b, uint32(len(i.Marks.Thunks)))
	b = appendRanges(b, i.Marks.Thunks...)
	b = appendUint(b, uint32(len(i.Sections)))
	for _, s := range i.Sections {
		b = appendRanges(appendString(b, s.Name), s.Range)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(appendUint(b, uint32(len(s))), s...)
}

func appendUint(b []byte, v uint32) []byte { return binary.AppendUvarint(b, uint64(v)) }

func appendRanges(b []byte, ranges ...Range) []byte {
	for _, r := range ranges {
		b = appendUint(appendUint(b, r.Start), r.End)
	}
	return b
}

// info reads the information, which must fill its section.
func (d *decoder) info() (i Info) {
	i = Info{
		BuildID: d.string(), Name: d.string(), Arch: d.string(), Release: d.string(),
		Text: d.uint64(), Stext: d.uint64(),
		Base: d.uint(), Extent: d.span(), Gap: d.span(),
		Marks: Marks{Entry: d.span(), Fred: d.span()},
	}
	for n := d.count(); n > 0 && !d.failed; n-- {
		i.Marks.Thunks = append(i.Marks.Thunks, d.span())
	}
	for n := d.count(); n > 0 && !d.failed; n-- {
		i.Sections = append(i.Sections, Section{Name: d.string(), Range: d.span()})
	}
	return i
}

func (d *decoder) span() Range { return Range{Start: d.uint(), End: d.uint()} }

// count reads how many thunks or sections follow. Each has more than one byte.
func (d *decoder) count() int {
	n := int(d.uint())
	if n > d.left() || n > maxRanges {
		d.fail()
		return 0
	}
	return n
}
