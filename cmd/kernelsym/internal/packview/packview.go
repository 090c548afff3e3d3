// SPDX-License-Identifier: Apache-2.0

// Package packview shows the packs that a command line names as images, whose symbols and lines can be looked up like those
// of loaded code.
package packview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packfiles"
	"github.com/kernelsym/kernelsym/internal/locate"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/packimage"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

var _ locate.Packs = (*Packs)(nil)

// Packs holds packs. It reads each one when it is first needed. It is safe for concurrent use.
type Packs struct {
	mu     sync.Mutex // held for all below
	files  *packfiles.Files
	images map[string]*Image // by build id, and by each name that was asked for
	failed map[string]error  // why the pack of a build cannot be used
}

// Open returns the packs at paths, as [packfiles.Find] does. It returns nil if there are no paths, and an error if there are
// no packs.
func Open(paths []string) (*Packs, error) {
	if len(paths) == 0 {
		return nil, nil //nolint:nilnil // no packs were asked for
	}
	files, err := packfiles.Find(paths)
	if err != nil {
		return nil, err
	}
	if len(files.BuildIDs()) == 0 {
		return nil, fmt.Errorf("no packs in %s: their names there are BUILD_ID%s", strings.Join(paths, ", "), pack.Ext)
	}
	return &Packs{files: files, images: make(map[string]*Image), failed: make(map[string]error)}, nil
}

// The errors of looking up a pack by the name of its image.
var (
	ErrNone    = errors.New("no pack describes an image or function") // its user also looks for a function
	ErrSeveral = errors.New("several packs are")
)

// usualLength is the number of digits in the build ID of most linkers. A user may have shortened one that has fewer.
const usualLength = 40

// Named returns the image with the build id or name that a user gave. The error is that of ByBuildID for a build id, and for
// a name it wraps ErrNone or ErrSeveral, or says which packs cannot be read.
func (p *Packs) Named(name string) (*Image, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if image := p.images[name]; image != nil {
		return image, nil
	}
	if pack.IsBuildID(name) {
		image, err := p.image(name)
		if errors.Is(err, packfiles.ErrNotFound) && len(name) < usualLength {
			err = fmt.Errorf("%w; give all digits of the build ID, as in the name of its pack", err)
		}
		return image, err
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
		return nil, fmt.Errorf("%w %q", ErrNone, name)
	case 1:
		p.images[name], err = p.image(ids[0])
		return p.images[name], err
	}
	return nil, fmt.Errorf("%w of %q: write the build id of one in place of the name: %s",
		ErrSeveral, name, strings.Join(ids, ", "))
}

// ByPrintedID is ByBuildID for an id as the kernel prints it, with zeros after a short one.
func (p *Packs) ByPrintedID(printed string) (*Image, error) {
	image, err := p.ByBuildID(printed)
	for id, ok := strings.CutSuffix(printed, "00"); ok && errors.Is(err, packfiles.ErrNotFound); id, ok = strings.CutSuffix(id, "00") {
		if short, errShort := p.ByBuildID(id); !errors.Is(errShort, packfiles.ErrNotFound) {
			return short, errShort
		}
	}
	return image, err
}

// ByBuildID returns the image of a build. The error wraps packfiles.ErrNotFound if the build has no
// pack, and otherwise says what is wrong with its pack.
func (p *Packs) ByBuildID(id string) (*Image, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.image(id)
}

// Pack returns the pack of a build. The error is that of ByBuildID.
func (p *Packs) Pack(_ context.Context, buildID string) (*pack.Pack, error) {
	image, err := p.ByBuildID(buildID)
	if err != nil {
		return nil, err
	}
	return image.Pack, nil
}

func (p *Packs) image(id string) (*Image, error) {
	if image, err := p.images[id], p.failed[id]; image != nil || err != nil {
		return image, err
	}
	image, err := p.open(id)
	switch {
	case err == nil:
		p.images[id] = image
	case !errors.Is(err, packfiles.ErrNotFound): // a text can have any number of builds without a pack
		p.failed[id] = err
	}
	return image, err
}

func (p *Packs) open(id string) (*Image, error) {
	opened, err := p.files.Open(id)
	if err != nil {
		return nil, err
	}
	image, err := packimage.New(opened, 0)
	if err != nil {
		return nil, err
	}
	return &Image{Pack: opened, Text: image, Snapshot: timeline.NewSnapshot(timeline.NewTable(image))}, nil
}

// A Listed is an image and the name by which Named finds it: its own or, if several packs have that, its build id.
type Listed struct {
	Name  string
	Image *Image
}

// All returns the images of all packs in the order of their names, and an error that says which cannot be used.
func (p *Packs) All() (all []Listed, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	packs, err := p.files.All()
	builds := make(map[string]int)
	for _, each := range packs {
		builds[each.Info().Name]++
	}
	for _, each := range packs {
		name := each.Info().Name
		if builds[name] > 1 {
			name = each.Info().BuildID
		}
		image, failed := p.image(each.Info().BuildID)
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		all = append(all, Listed{name, image})
	}
	slices.SortFunc(all, func(a, b Listed) int { return cmp.Compare(a.Name, b.Name) })
	return all, err
}
