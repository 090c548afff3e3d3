// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"unique"
)

// Lines says from which source lines a function was made. It is immutable and
// takes 12 bytes for each change of the line.
type Lines struct {
	records []lineRecord
	files   []unique.Handle[string]
	digest  [digestLen]byte
}

// digestLen is the length of a digest in bytes.
const digestLen = 16

// lineRecord says what stands at an offset, and behind it up to the next record.
type lineRecord struct {
	offset  uint32 // from the function's start
	lineCol uint32 // as line_col of struct bpf_line_info (include/uapi/linux/bpf.h)
	file    uint32
}

// Position is a place in a source file.
type Position struct {
	File   string
	Line   uint32 // counted from 1, 0 if it is not known
	Column uint32 // counted from 1, 0 if it is not known
}

// A LinesBuilder makes Lines. Its zero value is ready for use.
type LinesBuilder struct {
	lines  Lines
	byFile map[unique.Handle[string]]uint32 // positions in lines.files
}

// Add adds that the code from an offset on, up to the next that is added, was
// made from a line of a file. lineCol holds the line in its upper 22 bits and the column in
// the others, as the kernel has it. Offsets may come in any order; of equal
// ones, the last counts.
func (b *LinesBuilder) Add(offset, lineCol uint32, file unique.Handle[string]) {
	i, ok := b.byFile[file]
	if !ok {
		if b.byFile == nil {
			b.byFile = make(map[unique.Handle[string]]uint32)
		}
		i = uint32(len(b.lines.files))
		b.byFile[file] = i
		b.lines.files = append(b.lines.files, file)
	}
	b.lines.records = append(b.lines.records, lineRecord{offset: offset, lineCol: lineCol, file: i})
}

// Build returns the lines, nil if there are none, and resets the builder.
func (b *LinesBuilder) Build() *Lines {
	defer func() { *b = LinesBuilder{} }()
	r := b.lines.records
	slices.SortStableFunc(r, func(a, b lineRecord) int { return cmp.Compare(a.offset, b.offset) })
	kept := r[:0]
	for _, rec := range r {
		n := len(kept)
		if n > 0 && kept[n-1].offset == rec.offset {
			n--
			kept = kept[:n]
		}
		if n > 0 && kept[n-1].lineCol == rec.lineCol && kept[n-1].file == rec.file {
			continue
		}
		kept = append(kept, rec)
	}
	if len(kept) == 0 {
		return nil
	}
	l := &Lines{records: slices.Clone(kept), files: slices.Clone(b.lines.files)}
	l.digest = l.sum()
	return l
}

// sum returns the digest of the lines (contract 4.3). Different lines are hashed as different bytes: each record has
// twelve, and the number of its file says whether a name follows, which ends at the first zero byte.
func (l *Lines) sum() (digest [digestLen]byte) {
	const chunk = 4 << 10
	h := sha256.New()
	var data []byte
	numbers, last := make([]uint32, len(l.files)), uint32(0)
	for _, r := range l.records {
		if len(data) >= chunk {
			_, _ = h.Write(data) // a hash never fails
			data = data[:0]
		}
		data = binary.LittleEndian.AppendUint32(data, r.offset)
		data = binary.LittleEndian.AppendUint32(data, r.lineCol)
		number := &numbers[r.file]
		isFirst := *number == 0
		if isFirst {
			last++
			*number = last
		}
		data = binary.LittleEndian.AppendUint32(data, *number)
		if isFirst {
			data = append(append(data, l.files[r.file].Value()...), 0)
		}
	}
	_, _ = h.Write(data)
	copy(digest[:], h.Sum(nil))
	return digest
}

// Digest returns a hash of all that the lines say, in hex, which is the same wherever they were read. A nil Lines has
// none.
func (l *Lines) Digest() string {
	if l == nil {
		return ""
	}
	return hex.EncodeToString(l.digest[:])
}

// Find returns the number of the record that says where the code at an offset of the function comes from. It
// reports false if there is none; a nil Lines has none.
func (l *Lines) Find(offset uint32) (number int32, ok bool) {
	if l == nil {
		return 0, false
	}
	i, found := slices.BinarySearchFunc(l.records, offset, func(r lineRecord, offset uint32) int {
		return cmp.Compare(r.offset, offset)
	})
	if !found {
		i--
	}
	return int32(max(i, 0)), i >= 0
}

// Position returns what record i says. It panics if there is no such record.
func (l *Lines) Position(i int32) Position {
	r := l.records[i]
	return Position{File: l.files[r.file].Value(), Line: r.lineCol >> 10, Column: r.lineCol & (1<<10 - 1)}
}

// Len returns the number of records.
func (l *Lines) Len() int {
	if l == nil {
		return 0
	}
	return len(l.records)
}
