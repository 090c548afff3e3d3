// SPDX-License-Identifier: Apache-2.0

package btf

// Kind is the kind of a type, BTF_KIND_* in include/uapi/linux/btf.h.
type Kind uint8

// The kinds that other packages use.
const (
	KindFunc   Kind = 12 // a function; its name is the type's
	KindLocSec Kind = 22 // the places in one section where functions were inlined
)

// The kinds of types that are followed by more than struct btf_type.
const (
	kindInt       Kind = 1
	kindArray     Kind = 3
	kindStruct    Kind = 4
	kindUnion     Kind = 5
	kindEnum      Kind = 6
	kindFuncProto Kind = 13
	kindVar       Kind = 14
	kindDataSec   Kind = 15
	kindDeclTag   Kind = 17
	kindEnum64    Kind = 19
	kindLocParam  Kind = 20
	kindLocProto  Kind = 21
	kindLast           = KindLocSec
)

// more returns how many bytes follow a type of that kind with n members. It reports false for
// an unknown kind.
func (k Kind) more(n uint64) (bytes uint64, ok bool) {
	switch k {
	case kindInt, kindVar, kindDeclTag:
		return 4, true
	case kindArray:
		return 12, true
	case kindStruct, kindUnion, kindDataSec, kindEnum64, KindLocSec:
		return 12 * n, true
	case kindEnum, kindFuncProto:
		return 8 * n, true
	case kindLocParam:
		return 4 + 4*n, true
	case kindLocProto:
		return 4 * n, true
	}
	return 0, k > 0 && k <= kindLast
}
