// SPDX-License-Identifier: Apache-2.0

package dwarfpack

import "fmt"

// A form is the encoding of an attribute's value (section 7.5.6 of DWARF 5).
type form uint16

const (
	formAddr          form = 0x01
	formBlock2        form = 0x03
	formBlock4        form = 0x04
	formData2         form = 0x05
	formData4         form = 0x06
	formData8         form = 0x07
	formString        form = 0x08
	formBlock         form = 0x09
	formBlock1        form = 0x0a
	formData1         form = 0x0b
	formFlag          form = 0x0c
	formSdata         form = 0x0d
	formStrp          form = 0x0e
	formUdata         form = 0x0f
	formRefAddr       form = 0x10
	formRef1          form = 0x11
	formRef2          form = 0x12
	formRef4          form = 0x13
	formRef8          form = 0x14
	formRefUdata      form = 0x15
	formIndirect      form = 0x16
	formSecOffset     form = 0x17
	formExprloc       form = 0x18
	formFlagPresent   form = 0x19
	formStrx          form = 0x1a
	formAddrx         form = 0x1b
	formRefSup4       form = 0x1c
	formStrpSup       form = 0x1d
	formData16        form = 0x1e
	formLineStrp      form = 0x1f
	formRefSig8       form = 0x20
	formImplicitConst form = 0x21
	formLoclistx      form = 0x22
	formRnglistx      form = 0x23
	formRefSup8       form = 0x24
	formStrx1         form = 0x25
	formStrx2         form = 0x26
	formStrx3         form = 0x27
	formStrx4         form = 0x28
	formAddrx1        form = 0x29
	formAddrx2        form = 0x2a
	formAddrx3        form = 0x2b
	formAddrx4        form = 0x2c

	// GNU extensions: split DWARF before version 5, and the files of dwz.
	formGNUAddrIndex form = 0x1f01
	formGNUStrIndex  form = 0x1f02
	formGNURefAlt    form = 0x1f20
	formGNUStrpAlt   form = 0x1f21
)

func (f form) String() string { return fmt.Sprintf("form %#x", uint16(f)) }

// addrSize is the size of an address; other units are refused.
const addrSize = 8

// variable is the size of a form without a fixed size.
const variable = -1

// size returns the number of bytes of a value, or variable if the value itself determines it. It
// returns false for an unknown form.
func (f form) size(in format) (n int, ok bool) {
	switch f {
	case formFlagPresent, formImplicitConst:
		return 0, true
	case formData1, formFlag, formRef1, formStrx1, formAddrx1:
		return 1, true
	case formData2, formRef2, formStrx2, formAddrx2:
		return 2, true
	case formStrx3, formAddrx3:
		return 3, true
	case formData4, formRef4, formRefSup4, formStrx4, formAddrx4:
		return 4, true
	case formData8, formRef8, formRefSig8, formRefSup8:
		return 8, true
	case formData16:
		return 16, true
	case formAddr:
		return addrSize, true
	case formStrp, formLineStrp, formSecOffset, formStrpSup, formGNURefAlt, formGNUStrpAlt:
		return int(in.offsetSize()), true
	case formRefAddr:
		if in.version == 2 {
			return addrSize, true
		}
		return int(in.offsetSize()), true
	case formBlock, formBlock1, formBlock2, formBlock4, formExprloc, formString, formIndirect, formSdata, formUdata,
		formRefUdata, formStrx, formAddrx, formLoclistx, formRnglistx, formGNUAddrIndex, formGNUStrIndex:
		return variable, true
	}
	return 0, false
}

// A format has the parameters that determine the encoding of a unit or line table.
type format struct {
	version uint16
	wide    bool // offsets into sections have 8 bytes
}

func (f format) offsetSize() uint64 {
	if f.wide {
		return 8
	}
	return 4
}

// A value is the value of an attribute: a number or, for [formString], its offset in the unit.
type value struct {
	form form
	v    uint64
}

// value reads a value. It skips the contents of blocks.
func (r *reader) value(f form, in format) (value, error) {
	if f == formIndirect {
		if f = form(r.uleb()); f == formIndirect || f == formImplicitConst {
			return value{}, fmt.Errorf("%w: an indirect %v", ErrMalformed, f)
		}
	}
	n, ok := f.size(in)
	switch {
	case !ok:
		return value{}, fmt.Errorf("%w: %v", ErrUnsupported, f)
	case n == variable:
		return value{f, r.variable(f)}, nil
	case f == formFlagPresent:
		return value{f, 1}, nil
	case f == formData16:
		r.next(uint64(n))
		return value{f, 0}, nil
	}
	return value{f, r.uint(uint64(n))}, nil
}

// variable reads a value without a fixed size.
func (r *reader) variable(f form) uint64 {
	switch f {
	case formString:
		at := r.pos
		r.string()
		return uint64(at)
	case formSdata:
		return uint64(r.sleb())
	case formBlock1:
		r.next(r.uint(1))
	case formBlock2:
		r.next(r.uint(2))
	case formBlock4:
		r.next(r.uint(4))
	case formBlock, formExprloc:
		r.next(r.uleb())
	default:
		return r.uleb()
	}
	return 0
}
