// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packfiles"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/packimage"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// packUsage describes the flag --pack, and packExtension is the extension of pack files.
const (
	packUsage     = "pack, or directory of packs named <build id>" + pack.Ext + " (repeatable)"
	packExtension = "kspack"
)

// packs holds the packs that the command line names.
type packs struct {
	files   *packfiles.Files
	images  map[string]*packImage // by build id, and by each name that was asked for
	missing map[string]bool       // build ids already reported to have no pack
	every   []packFunction        // the images of all packs; nil until needed
}

// openPacks opens the packs at paths. It returns nil if there are no paths.
func openPacks(paths []string) (*packs, error) {
	if len(paths) == 0 {
		return nil, nil //nolint:nilnil // no packs were asked for
	}
	files, err := packfiles.Find(paths)
	if err != nil {
		return nil, err
	}
	if len(files.BuildIDs()) == 0 {
		return nil, fmt.Errorf("no packs in %s: their names there are <build id>%s", strings.Join(paths, ", "), pack.Ext)
	}
	return &packs{files: files, images: make(map[string]*packImage), missing: make(map[string]bool)}, nil
}

// The errors of looking up a pack by the name of its image.
var (
	errNoPack       = errors.New("none of the packs is")
	errSeveralPacks = errors.New("several packs are")
)

// named returns the image with that build id or name.
func (p *packs) named(name string) (*packImage, error) {
	if image := p.images[name]; image != nil {
		return image, nil
	}
	if pack.IsBuildID(name) {
		return p.byBuildID(name)
	}
	all, err := p.files.All()
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, candidate := range all {
		if candidate.Info().Name == name {
			ids = append(ids, candidate.Info().BuildID)
		}
	}
	switch len(ids) {
	case 0:
		return nil, fmt.Errorf("%w of %q", errNoPack, name)
	case 1:
		p.images[name], err = p.byBuildID(ids[0])
		return p.images[name], err
	}
	return nil, fmt.Errorf("%w of %q: write the build id of one in place of the name: %s",
		errSeveralPacks, name, strings.Join(ids, ", "))
}

// maxMissing limits how many missing packs are reported, because any number of builds can be in a text.
const maxMissing = 1000

// missingOnce reports whether this is the first time that the pack of a build is missing.
func (p *packs) missingOnce(id string) bool {
	if p.missing[id] || len(p.missing) >= maxMissing {
		return false
	}
	p.missing[id] = true
	return true
}

// byPrintedID is byBuildID for an id as the kernel prints it, with zeros after a short one.
func (p *packs) byPrintedID(printed string) (*packImage, error) {
	image, err := p.byBuildID(printed)
	for id, ok := strings.CutSuffix(printed, "00"); ok && errors.Is(err, packfiles.ErrNotFound); id, ok = strings.CutSuffix(id, "00") {
		if short, errShort := p.byBuildID(id); !errors.Is(errShort, packfiles.ErrNotFound) {
			return short, errShort
		}
	}
	return image, err
}

// byBuildID returns the image of a build. The error wraps packfiles.ErrNotFound if the build has no
// pack.
func (p *packs) byBuildID(id string) (*packImage, error) {
	if image := p.images[id]; image != nil {
		return image, nil
	}
	opened, err := p.files.Open(id)
	if err != nil {
		return nil, err
	}
	image, err := newPackImage(opened)
	if err != nil {
		return nil, err
	}
	p.images[id] = image
	return image, nil
}

// packImage is a pack whose symbols can be looked up. They are in a snapshot of their own, at
// addresses that only this snapshot uses.
type packImage struct {
	pack     *pack.Pack
	image    *timeline.Image
	snapshot *timeline.Snapshot
	byName   map[string][]symtab.Symbol // nil until needed
}

func newPackImage(p *pack.Pack) (*packImage, error) {
	image, err := packimage.New(p, 0)
	if err != nil {
		return nil, err
	}
	return &packImage{pack: p, image: image, snapshot: timeline.NewSnapshot(timeline.NewTable(image))}, nil
}

// address returns the pack address at an offset from the image's base, where relative addresses
// start.
func (p *packImage) address(offset int64) (addr uint32, ok bool) {
	at := offset + int64(p.pack.Info().Base)
	return uint32(at), at >= 0 && at <= math.MaxUint32
}

// offset is the inverse of [packImage.address].
func (p *packImage) offset(addr uint32) int64 { return int64(addr) - int64(p.pack.Info().Base) }

// inSnapshot converts a pack address to an address in the snapshot.
func (p *packImage) inSnapshot(addr uint32) uint64 { return p.image.Base() + uint64(p.offset(addr)) }

// fromSnapshot is the inverse of inSnapshot.
func (p *packImage) fromSnapshot(addr uint64) uint32 {
	return uint32(addr - p.image.Base() + uint64(p.pack.Info().Base))
}

// relative formats a relative address the way lookup accepts it.
func relative(image string, offset int64) string { return fmt.Sprintf("%s%+#x", image, offset) }

// symbolAt returns the kernel's name of the symbol that covers a pack address, or an empty string
// if none does.
func (p *packImage) symbolAt(addr uint32) string {
	s := p.image.Lookup(p.inSnapshot(addr))
	if !s.Exists() {
		return ""
	}
	return p.image.SymbolName(s).System
}

// chain returns the functions and lines at a pack address that symbol covers, innermost first. It
// returns none if the pack attributes the code to another function.
func (p *packImage) chain(addr uint32, symbol string) []pack.Frame {
	frames := p.pack.Find(addr, nil)
	if n := len(frames); n == 0 || frames[n-1].Function != "" && !pack.Agree(symbol, frames[n-1].Function) {
		return nil
	}
	return frames
}

// position formats a position in the source. It is empty if the position is unknown.
func position(file string, line uint32) string {
	if file == "" || line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}
