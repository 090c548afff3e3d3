// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/inline"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// packOf returns a pack of the core kernel, with rows of 12 bytes. Half of the rows lie in
// functions that were inlined, so an address has two functions on average and 16 at most, as in a
// real kernel. Some functions are inlined far more often than others.
func packOf(r *rand.Rand, core *timeline.Image) (*pack.Pack, error) {
	const files, rowLen, maxInlined = 3_500, 12, 15
	text := func(addr uint64) uint32 { return uint32(addr - core.Start) }
	w := pack.NewWriter(pack.Info{
		BuildID: core.BuildID(), Name: pack.KernelName, Arch: core.Text.Landmarks.Arch,
		Extent: pack.Range{End: text(core.End)}, Gap: pack.Range{Start: text(core.Text.Gap.Start), End: text(core.Text.Gap.End)},
	})
	path := func(n int) pack.File {
		return w.File(fmt.Sprintf("drivers/subsystem%d/some_driver/file%d.c", n/100, n))
	}
	inlined := rand.NewZipf(r, 1.01, 10, uint64(core.Len()-1))
	for i := range core.Len() {
		s := core.Text.Symbol(i)
		at := path(i * files / core.Len())
		code := w.Node(0, w.Function(core.Text.Name(s).System, at, r.Uint32N(3_000)), 0, 0)
		for addr := text(s.Start); addr < text(s.End()); addr += rowLen {
			node, file := code, at
			for depth := 0; depth < maxInlined && r.IntN(2) == 0; depth++ {
				n := int(inlined.Uint64())
				callFile := file
				file = path(n * files / core.Len())
				f := w.Function(core.Text.Name(core.Text.Symbol(n)).System, file, uint32(n%3_000))
				node = w.Node(node, f, callFile, r.Uint32N(3_000))
			}
			w.Row(addr, node, file, r.Uint32N(3_000))
		}
		if i+1 == core.Len() {
			w.Row(text(s.End()), 0, 0, 0)
		}
	}
	data, err := w.Bytes()
	if err != nil {
		return nil, err
	}
	return pack.Read(bytes.NewReader(data), int64(len(data)))
}

// benchLines measures a message whose frames get lines and inlined functions.
func benchLines(r *rand.Rand, core *timeline.Image, rounds int) error {
	const id = "0123456789abcdef0123456789abcdef01234567"
	ofBuild, text := *core, *core.Text
	text.BuildID, text.FileID, ofBuild.Text = id, buildid.FileID(id), &text
	core = &ofBuild
	known := knownWithHistory(core)
	p, err := packOf(r, core)
	if err != nil {
		return err
	}
	withLines := options
	withLines.DebugInfo, withLines.Inline = true, true
	packed := known
	packed.Packs = pack.NewSet([]*pack.Pack{p})
	pd := newMessage(r, core, large)
	wire, _, err := codec(pd, 1)
	if err != nil {
		return err
	}
	work := newWork(withLines, packed, wire, 1)
	result := work.rewriter.Rewrite(copyOf(pd), packed)
	if got := result.Packs; got[inline.GaveInlined] < got[inline.GaveLines]/2 || got[inline.GaveLines] < large.locations/10 {
		return errMessage
	}
	work.reportFrame("lines", medians(rounds, thread, work.task())[0])
	return nil
}
