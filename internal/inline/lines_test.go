// SPDX-License-Identifier: Apache-2.0

package inline

import (
	"bytes"
	"runtime"
	"slices"
	"testing"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/timeline/timelinetest"
)

const (
	kernelID = "00112233445566778899aabbccddeeff00112233"
	text     = 0xffffffff81000000
)

// newKernel returns a kernel with four functions.
func newKernel(t testing.TB) *timeline.Image {
	t.Helper()
	return timelinetest.NewImage(t, timelinetest.Text{
		Origin: timeline.OriginKernel, BuildID: kernelID, Base: text, Start: text, End: text + 0x400,
	},
		timelinetest.Symbol{Offset: 0, Name: "vfs_read"},
		timelinetest.Symbol{Offset: 0x100, Name: "vfs_write"},
		timelinetest.Symbol{Offset: 0x200, Name: "renamed"},
		timelinetest.Symbol{Offset: 0x300, Name: "bare"},
	)
}

// newPacks returns the pack of that kernel. vfs_read has fdput inlined, which has fput inlined;
// vfs_write has a line of its own. For the code of renamed, the pack has another function; for
// bare, it has nothing.
func newPacks(t testing.TB) *pack.Set {
	t.Helper()
	w := pack.NewWriter(pack.Info{
		BuildID: kernelID, Name: pack.KernelName, Arch: "amd64", Text: text, Stext: text, Extent: pack.Range{End: 0x400},
	})
	root := func(name, file string) pack.Node { return w.Node(0, w.Function(name, w.File(file), 1), 0, 0) }
	read, write, other := root("vfs_read", "fs/read_write.c"), root("vfs_write", "fs/read_write.c"), root("another", "x.c")
	put := w.Node(read, w.Function("fdput", w.File("include/linux/file.h"), 1), w.File("fs/read_write.c"), 474)
	inner := w.Node(put, w.Function("fput", w.File("fs/file_table.c"), 1), w.File("include/linux/file.h"), 43)
	row := func(start uint32, node pack.Node, file string, line uint32) { w.Row(start, node, w.File(file), line) }
	row(0, read, "fs/read_write.c", 460)
	row(0x10, inner, "fs/file_table.c", 340)
	row(0x20, put, "include/linux/file.h", 44)
	row(0x30, 0, "", 0)
	row(0x100, write, "fs/read_write.c", 500)
	row(0x200, other, "x.c", 1)
	row(0x300, 0, "", 0)
	for s := range newKernel(t).Symbols() {
		w.Symbol(pack.Symbol{Range: pack.Range{Start: uint32(s.Start - text), End: uint32(s.End() - text)}, Name: "s"})
	}
	data, err := w.Bytes()
	require.NoError(t, err)
	p, err := pack.Read(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	return pack.NewSet([]*pack.Pack{p})
}

// linesAt returns the lines at an offset: functions with their files, and line numbers.
func linesAt(l *Lines, image *timeline.Image, offset uint64) (lines []string, numbers []uint32, result Result) {
	chain, result := l.At(image, image.Lookup(text+offset), text+offset)
	for line := range l.Of(chain) {
		f := l.Function(line.Function)
		lines, numbers = append(lines, f.Name.Name+" "+f.File), append(numbers, line.Number)
	}
	return lines, numbers, result
}

// TestContract_10_1_Chains verifies the chain and the result for one address of each kind.
func TestContract_10_1_Chains(t *testing.T) {
	image, packs := newKernel(t), newPacks(t)
	const read, put = "vfs_read fs/read_write.c", "fdput include/linux/file.h"
	for _, tt := range []struct {
		offset  uint64
		inlined bool
		lines   []string
		numbers []uint32
		result  Result
	}{
		{0x8, true, []string{read}, []uint32{460}, GaveLines},
		{0x18, true, []string{"fput fs/file_table.c", put, read}, []uint32{340, 43, 474}, GaveInlined},
		{0x28, true, []string{put, read}, []uint32{44, 474}, GaveInlined},
		{0x18, false, []string{read}, []uint32{474}, GaveLines},
		{0x108, true, []string{"vfs_write fs/read_write.c"}, []uint32{500}, GaveLines},
		{0x208, true, nil, nil, WrongFunction},
		{0x308, true, nil, nil, GaveNothing},
	} {
		var l Lines
		l.Open(packs, tt.inlined)
		lines, numbers, result := linesAt(&l, image, tt.offset)
		assert.Equal(t, tt.lines, lines, "%#x", tt.offset)
		assert.Equal(t, tt.numbers, numbers)
		assert.Equal(t, tt.result, result)
		assert.Equal(t, []string{kernelID}, l.Wanted.BuildIDs)
	}
}

// TestEqualChainsAreOne verifies that chains can be compared as numbers, and that equal functions
// have one number.
func TestEqualChainsAreOne(t *testing.T) {
	image, packs := newKernel(t), newPacks(t)
	var l Lines
	l.Open(packs, true)
	at := func(offset uint64) Chain {
		chain, _ := l.At(image, image.Lookup(text+offset), text+offset)
		return chain
	}
	assert.Equal(t, at(0x10), at(0x1f))
	assert.NotEqual(t, at(0x10), at(0x20))
	assert.Equal(t, l.Outermost(at(0x10)), l.Outermost(at(0x20)), "both are inlined into the same line of vfs_read")
	assert.Equal(t, 3, l.NumFunctions())
	assert.Len(t, slices.Collect(l.Inlined(at(0x10))), 2)
	assert.Empty(t, slices.Collect(l.Inlined(at(0))))
}

// TestWithoutPack verifies that a pack is wanted even if there is none yet.
func TestWithoutPack(t *testing.T) {
	image := newKernel(t)
	for _, packs := range []*pack.Set{nil, pack.NewSet(nil)} {
		var l Lines
		l.Open(packs, true)
		_, _, result := linesAt(&l, image, 0)
		assert.Equal(t, GaveNothing, result)
		assert.Equal(t, []string{kernelID}, l.Wanted.BuildIDs)
		l.Close()
		assert.Empty(t, l.Wanted.BuildIDs)
	}
}

// TestRemembersWhilePacksAreOpen verifies that nothing is read twice from the same packs, and that
// answers from other packs are forgotten.
func TestRemembersWhilePacksAreOpen(t *testing.T) {
	image, packs := newKernel(t), newPacks(t)
	var l Lines
	for range 2 {
		l.Open(packs, true)
		linesAt(&l, image, 0x18)
		l.Close()
		assert.Len(t, l.answers, 1)
	}
	l.Open(packs, true)
	for i := range uint32(maxAnswers) {
		l.answers[address{1, i}] = answer{}
	}
	l.Close()
	l.Open(packs, true)
	assert.Empty(t, l.answers, "too much was remembered")
	linesAt(&l, image, 0x18)
	l.Open(newPacks(t), true)
	assert.Empty(t, l.answers, "answers of other packs were kept")
}

// TestKeepsNothingAlive verifies that Lines does not keep packs and images alive that nothing else
// uses.
func TestKeepsNothingAlive(t *testing.T) {
	var l Lines
	packs, image := weak.Pointer[pack.Set]{}, weak.Pointer[timeline.Image]{}
	func() {
		p, m := newPacks(t), newKernel(t)
		packs, image = weak.Make(p), weak.Make(m)
		l.Open(p, true)
		linesAt(&l, m, 0x18)
		l.Close()
	}()
	runtime.GC()
	assert.Nil(t, packs.Value())
	assert.Nil(t, image.Value())
	runtime.KeepAlive(&l)
}

// TestWanted verifies that only valid ids of builds and files are wanted, each once.
func TestWanted(t *testing.T) {
	const fileID = "ffffffffffffffffffffffffffffffff"
	var w Wanted
	for range 2 {
		w.Add(kernelID, fileID)
		w.Add("", fileID)
		w.Add("../../etc/passwd", "")
		w.Add("", "../../etc/passwd")
		w.Add("", "")
	}
	assert.Equal(t, []string{kernelID}, w.BuildIDs)
	assert.Equal(t, []string{fileID}, w.FileIDs)
	w.Add(fileID, "")
	assert.Equal(t, []string{kernelID, fileID}, w.BuildIDs, "the build id of one can be spelled like the file ID of another")
}
