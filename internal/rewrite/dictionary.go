// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"hash/maphash"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// dictionary is a message and its tables.
type dictionary struct {
	resources pprofile.ResourceProfilesSlice
	strings   pcommon.StringSlice
	attrs     pprofile.KeyValueAndUnitSlice
	mappings  pprofile.MappingSlice
	functions pprofile.FunctionSlice
	locations pprofile.LocationSlice
	stacks    pprofile.StackSlice
}

func newDictionary(pd pprofile.Profiles) dictionary {
	d := pd.Dictionary()
	return dictionary{
		resources: pd.ResourceProfiles(),
		strings:   d.StringTable(),
		attrs:     d.AttributeTable(),
		mappings:  d.MappingTable(),
		functions: d.FunctionTable(),
		locations: d.LocationTable(),
		stacks:    d.StackTable(),
	}
}

// str returns entry i of the string table, an empty string if there is none.
func (d *dictionary) str(i int32) string {
	if uint(i) >= uint(d.strings.Len()) {
		return ""
	}
	return d.strings.At(int(i))
}

// isEmpty reports whether a mapping is the zero value, which stands for none.
func isEmpty(mp pprofile.Mapping) bool {
	return mp.MemoryStart() == 0 && mp.MemoryLimit() == 0 && mp.FileOffset() == 0 && mp.FilenameStrindex() == 0 &&
		mp.AttributeIndices().Len() == 0
}

// stringTable appends to the string table what is not there yet.
type stringTable struct {
	index index
	own   int32 // the number of strings that came with the message
}

var hashSeed = maphash.MakeSeed()

func hashString(s string) uint64 { return maphash.String(hashSeed, s) }

// intern returns the index of s in the string table. fresh says that it was appended by
// this call, so that nothing refers to it yet.
func (t *stringTable) intern(d *dictionary, s string) (at int32, fresh bool) {
	return t.internHashed(d, s, hashString(s))
}

// internHashed is intern for a string whose hash is known.
func (t *stringTable) internHashed(d *dictionary, s string, hash uint64) (at int32, fresh bool) {
	x := &t.index
	if !x.built {
		n := d.strings.Len()
		x.reset(n + n/4)
		for i := range n {
			entry := d.strings.At(i)
			if i == 0 && entry != "" {
				continue // contract 1.6: 0 may mean none
			}
			x.add(hashString(entry), int32(i), func(pos int32) bool { return d.strings.At(int(pos)) == entry })
		}
	}
	if at, ok := x.find(hash, func(pos int32) bool { return d.strings.At(int(pos)) == s }); ok {
		return at, false
	}
	if d.strings.Len() == 0 && s != "" {
		d.strings.Append("") // index 0 is the zero value
		x.addNew(hashString(""), 0)
	}
	at = int32(d.strings.Len())
	d.strings.Append(s)
	x.addNew(hash, at)
	return at, true
}

// resized returns s with length n. What it holds is not defined.
func resized[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return make([]T, n)
}

// zeroed returns s with length n, all zero.
func zeroed[T any](s []T, n int) []T {
	s = resized(s, n)
	clear(s)
	return s
}
