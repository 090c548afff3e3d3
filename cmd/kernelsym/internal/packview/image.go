// SPDX-License-Identifier: Apache-2.0

package packview

import (
	"fmt"
	"math"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// Image is a pack whose symbols can be looked up. They are at addresses that only its snapshot has. Offsets count from the
// image's base, as in relative addresses.
type Image struct {
	Pack     *pack.Pack
	Text     *timeline.Image    // has the symbols
	Snapshot *timeline.Snapshot // has Text alone
}

// Address returns the address in the snapshot at an offset.
func (m *Image) Address(offset int64) uint64 { return m.Text.Base() + uint64(offset) }

// Relative writes a relative address in the form that `kernelsym lookup` accepts.
func Relative(image string, offset int64) string { return fmt.Sprintf("%s%+#x", image, offset) }

// Chain returns the functions and lines at an offset in the code of a symbol, innermost first. It returns none if the pack
// attributes the code to another function.
func (m *Image) Chain(offset int64, symbol string) []pack.Frame {
	at := offset + int64(m.Pack.Info().Base)
	if at < 0 || at > math.MaxUint32 {
		return nil
	}
	frames := m.Pack.Find(uint32(at), nil)
	if n := len(frames); n == 0 || frames[n-1].Function != "" && !pack.Agree(symbol, frames[n-1].Function) {
		return nil
	}
	return frames
}

// Position writes a position in the source. It is empty if the position is unknown.
func Position(file string, line uint32) string {
	if file == "" || line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}
