// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"encoding/binary"
	"strings"
	"sync/atomic"

	"github.com/ianlancetaylor/demangle"
)

// A Name is the name of a symbol, in two spellings. It is immutable and may be shared.
type Name struct {
	// Name is for people: Rust names are demangled, the suffixes that a
	// compiler appends (.isra.0, .cold, .llvm.1234) are kept.
	Name string

	// System is the kernel's own symbol. The two are the same string if there
	// is nothing to demangle.
	System string

	// Folded says that further names at the symbol's address were given up for
	// this one.
	Folded bool

	number uint32
}

// names are the names of a module's symbols, in the order of their addresses.
//
// A record is: a byte with the length of the prefix that the name shares with
// the one before it (0 for the first of a block) and foldedBit, the number of
// bytes that follow the prefix as a uvarint, and these bytes.
type names struct {
	packed []byte
	blocks []uint32 // offset into packed of every blockLen-th name
	cache  nameCache
}

const (
	blockLen  = 16
	foldedBit = 1 << 7
	maxShared = foldedBit - 1 // longest prefix that a record can share
)

// appendName appends the name of symbol i to dst and reports whether it is
// folded.
func (n *names) appendName(dst []byte, i uint32) (name []byte, folded bool) {
	from := len(dst)
	packed := n.packed[n.blocks[i/blockLen]:]
	for k := i % blockLen; ; k-- {
		shared := int(packed[0] &^ foldedBit)
		folded = packed[0]&foldedBit != 0
		rest, width := binary.Uvarint(packed[1:])
		packed = packed[1+width:]
		dst = append(dst[:from+shared], packed[:rest]...)
		if k == 0 {
			return dst, folded
		}
		packed = packed[rest:]
	}
}

// maxRecord is the length of the longest record.
const maxRecord = 1 + 2 + MaxNameLen

// putRecord writes the record of a name that shares its first `shared` bytes
// with the one before it, and returns its length. dst must have room for
// maxRecord bytes.
func putRecord(dst, name []byte, shared int, folded bool) int {
	rest := name[shared:]
	dst[0] = byte(shared)
	if folded {
		dst[0] |= foldedBit
	}
	n := headLen(len(rest))
	if n == 2 {
		dst[1] = byte(len(rest))
	} else {
		binary.PutUvarint(dst[1:], uint64(len(rest)))
	}
	return n + copy(dst[n:], rest)
}

// headLen returns how many bytes of a record come before the rest of its name.
func headLen(rest int) int {
	if rest < 1<<7 {
		return 2
	}
	return 3
}

// name returns the names of symbol i, from the cache if it has them.
func (n *names) name(i uint32) *Name {
	if found := n.cache.get(i); found != nil {
		return found
	}
	var buf [128]byte
	packed, folded := n.appendName(buf[:0], i)
	name := NameOf(string(packed))
	name.Folded, name.number = folded, i
	n.cache.put(&name)
	return &name
}

// NameOf returns the names of a symbol that is the only one at its address (contract 3.4).
func NameOf(symbol string) Name { return Name{Name: demangled(symbol), System: symbol} }

// nameCache keeps names that were asked for, so that a name is decoded once and
// its string is shared while it is in use. It holds a bounded number: about one
// for every cacheShare symbols, at most maxCached. A new name takes the place of
// another one. It is safe for concurrent use.
type nameCache struct {
	slots []atomic.Pointer[Name] // a power of two, or none
}

const (
	cacheShare = 8
	maxCached  = 8192
)

func (c *nameCache) init(symbols int) { c.slots = make([]atomic.Pointer[Name], cacheSize(symbols)) }

// cacheSize returns the number of slots for the names of that many symbols.
func cacheSize(symbols int) int {
	size := cacheWays
	for size < min(symbols/cacheShare, maxCached) {
		size *= 2
	}
	return size
}

// cacheWays is the number of slots that a name can be in, a power of two.
const cacheWays = 4

// slot returns one of the slots in which the name of symbol i can be.
func (c *nameCache) slot(i, way uint32) *atomic.Pointer[Name] {
	return &c.slots[(i^way)&uint32(len(c.slots)-1)]
}

func (c *nameCache) get(i uint32) *Name {
	for way := range uint32(cacheWays) {
		if name := c.slot(i, way).Load(); name != nil && name.number == i {
			return name
		}
	}
	return nil
}

// put stores a name where there is room, or in its first slot. To replace the oldest instead
// would be worse: messages ask for much the same names in the same order, and the oldest is
// the next that is asked for.
func (c *nameCache) put(name *Name) {
	for way := range uint32(cacheWays) {
		if c.slot(name.number, way).CompareAndSwap(nil, name) {
			return
		}
	}
	c.slot(name.number, 0).Store(name)
}

// demangled returns the readable form of a Rust symbol, any other unchanged.
// Rust's v0 names begin with _R, its older ones with _ZN; nothing else in the
// kernel begins like that and demangles.
func demangled(symbol string) string {
	if !strings.HasPrefix(symbol, "_R") && !strings.HasPrefix(symbol, "_ZN") {
		return symbol
	}
	mangled, suffix := symbol, ""
	end := strings.IndexByte(symbol, '.')
	if symbol[1] == 'Z' { // here a dot can also be part of the mangled name
		end = strings.LastIndex(symbol, "E.") + 1
	}
	if end > 0 {
		mangled, suffix = symbol[:end], symbol[end:]
	}
	name, err := demangle.ToString(mangled, demangle.NoClones, demangle.MaxLength(maxDemangled))
	if err != nil {
		return symbol // not a Rust name after all
	}
	return name + suffix
}

// maxDemangled is the power of two that bounds the length of a demangled name:
// a few bytes of back references can stand for megabytes.
const maxDemangled = 12
