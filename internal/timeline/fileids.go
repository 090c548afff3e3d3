// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/hex"
	"sync"

	"github.com/kernelsym/kernelsym/internal/buildid"
)

// hasFunctionID reports whether a file ID is that of an image of the table that has no Text (see contract 4.3).
func (t *Table) hasFunctionID(id string, loads bool) bool {
	key, ok := parseFileID(id)
	if !ok {
		return false
	}
	c, ok := t.ids.countOf(key, t.idVersion, &t.images)
	if !ok {
		t.ownIDs.Do(func() { t.ownCounts = countIDs(&t.images) })
		c = t.ownCounts[key]
	}
	return c.anywhere > 0 || loads && c.here > 0
}

// An idIndex has the file IDs of the images of one table of a history after another. All IDs are hashed when one is asked
// for, which is rare. From then on, the history adds the IDs of images that come and go to a log, by which the index moves
// to the table that is asked:
//
//	version    0   1   2   3   4   5   6   7   8
//	log                  ├ + ┼ + ┼ - ┼ + ┼ - ┤
//	counts                           ↑               of version 5; of 8 after two more steps
//
// A log that grows longer than the index is dropped together with it, and all IDs are hashed again when one is asked for.
// So a change costs a few hashes, and an index that is not asked any more is gone after as many changes as it has IDs. A
// table that is older than the log counts its own IDs, once. The index keeps no table and no image alive. It is safe for
// concurrent use.
type idIndex struct {
	mu      sync.Mutex
	counts  map[fileID]idCount // nil if no ID has been asked for
	version int                // of counts, not before first
	first   int                // the version before the log
	log     []idChange         // empty while counts is nil
}

// A fileID is the number that a file ID has in hex.
type fileID [buildid.FileIDLen / 2]byte

// An idCount says how many images have a file ID: wherever they are loaded, and where they are.
type idCount struct{ anywhere, here int32 }

// An idChange is a change of a count by 1 or -1.
type idChange struct {
	id             fileID
	anywhere, here int8
}

// parseFileID reads a file ID, which has digits in lower case.
func parseFileID(text string) (id fileID, ok bool) {
	if len(text) != buildid.FileIDLen {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(text))
	return id, err == nil && hex.EncodeToString(id[:]) == text
}

// countOf returns how many images of a version have a file ID. It reports false for a version that is older than the log.
func (x *idIndex) countOf(id fileID, version int, of *images) (c idCount, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if version < x.first {
		return c, false
	}
	if x.counts == nil { // so the log is empty
		x.counts, x.version = countIDs(of), version
	}
	x.moveTo(version)
	return x.counts[id], true
}

// countIDs counts the file IDs of images.
func countIDs(of *images) map[fileID]idCount {
	counts := make(map[fileID]idCount)
	for m := range of.all() {
		for _, c := range changesOf(m, 1) {
			count(counts, c, 1)
		}
	}
	return counts
}

// moveTo moves the counts to another version that is in the log.
func (x *idIndex) moveTo(version int) {
	for ; x.version < version; x.version++ {
		count(x.counts, x.log[x.version-x.first], 1)
	}
	for ; x.version > version; x.version-- {
		count(x.counts, x.log[x.version-1-x.first], -1)
	}
}

// count applies a change, or takes it back if sign is -1.
func count(counts map[fileID]idCount, c idChange, sign int32) {
	n := counts[c.id]
	n.anywhere += sign * int32(c.anywhere)
	n.here += sign * int32(c.here)
	if n == (idCount{}) {
		delete(counts, c.id)
	} else {
		counts[c.id] = n
	}
}

// changesOf returns what an image changes that is added (n is 1) or removed (n is -1).
func changesOf(m *Image, n int8) (changes []idChange) {
	if m == nil || !m.IsFunction() || m.Name() == "" {
		return nil
	}
	anywhere, here := m.functionFileIDs()
	for i := range anywhere {
		id, _ := parseFileID(anywhere[i])
		changes = append(changes, idChange{id: id, anywhere: n})
		id, _ = parseFileID(here[i])
		changes = append(changes, idChange{id: id, here: n})
	}
	return changes
}

// replace records that an image has been replaced by another. Either may be nil.
func (x *idIndex) replace(m, by *Image) {
	if m != nil && by != nil && m.hasContentOf(by) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.counts == nil {
		x.first++
		return
	}
	x.log = append(append(x.log, changesOf(m, -1)...), changesOf(by, 1)...)
	if len(x.log) > max(minLog, len(x.counts)) {
		x.first += len(x.log)
		x.counts, x.log = nil, nil
	}
}

// minLog is the length of a log that is not dropped.
const minLog = 64

// now returns the present version.
func (x *idIndex) now() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.first + len(x.log)
}

// memory returns the number of bytes that the index takes.
func (x *idIndex) memory() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return int64(len(x.counts))*indexed + int64(cap(x.log))*sizeOf[idChange]()
}

// indexed is roughly the number of bytes that a map needs for a file ID and its count, as measured with Go 1.26.
const indexed = 40
