// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packfiles"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// packFunction is a function in a pack.
type packFunction struct {
	image  *packImage
	name   string // the image's name, or its build id if several packs share the name
	symbol symtab.Symbol
}

// start and end return the pack addresses of the function.
func (f *packFunction) start() uint32 { return f.image.fromSnapshot(f.symbol.Start) }
func (f *packFunction) end() uint32   { return f.image.fromSnapshot(f.symbol.End()) }

// address returns the relative form of a pack address.
func (f *packFunction) address(addr uint32) where {
	return where{relative: relative(f.name, f.image.offset(addr))}
}

// whole describes the function.
func (f *packFunction) whole() *answer {
	a := &answer{Address: f.address(f.start()), imageName: f.image.owner()}
	f.image.describe(a, f.symbol, f.start(), f.start())
	end := f.address(f.end())
	a.End, a.Offset, a.Inlined = &end, nil, nil
	return a
}

// at describes an offset in the function.
func (f *packFunction) at(offset int64, caller bool) *answer {
	addr := f.start() + uint32(offset)
	a := &answer{Address: f.address(addr), imageName: f.image.owner()}
	at := lineAddress(uint64(addr), uint64(f.start()), uint64(f.end()), caller)
	f.image.describe(a, f.symbol, addr, uint32(at))
	return a
}

// functions returns the functions in the packs that a query names. If the query has a build, the name is the kernel's,
// and no other pack is opened.
func (p *packs) functions(q *query) (found []packFunction, err error) {
	images, err := p.imagesOf(q)
	if err != nil {
		return nil, err
	}
	for _, f := range images {
		for _, f.symbol = range f.image.symbolsByName()[q.name] {
			found = append(found, f)
		}
	}
	if len(found) > 0 || q.build != "" {
		return found, nil
	}
	wanted, err := newPatterns(q.name)
	if err != nil {
		return nil, err
	}
	for _, f := range images {
		for name, symbols := range f.image.symbolsByName() {
			if !wanted.match(name) {
				continue
			}
			for _, f.symbol = range symbols {
				found = append(found, f)
			}
		}
	}
	slices.SortFunc(found, func(a, b packFunction) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.start(), b.start()))
	})
	return found, nil
}

// imagesOf returns the images that can have the function of a query.
func (p *packs) imagesOf(q *query) (images []packFunction, err error) {
	if q.build == "" {
		images, err = p.everyImage()
	} else {
		images, err = p.imageOfBuild(q.build)
	}
	if q.module == "" || err != nil {
		return images, err
	}
	return slices.DeleteFunc(slices.Clone(images), func(f packFunction) bool {
		return f.image.pack.Info().Name != q.module
	}), nil
}

// imageOfBuild returns the image of a build, or none if the build has no pack.
func (p *packs) imageOfBuild(id string) ([]packFunction, error) {
	image, err := p.byBuildID(id)
	if errors.Is(err, packfiles.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return []packFunction{{image: image, name: id}}, nil
}

// symbolsByName returns the symbols of the image by the kernel's name.
func (p *packImage) symbolsByName() map[string][]symtab.Symbol {
	if p.byName == nil {
		p.byName = make(map[string][]symtab.Symbol, p.image.Len())
		for symbol := range p.image.Symbols() {
			name := p.image.SymbolName(symbol).System
			p.byName[name] = append(p.byName[name], symbol)
		}
	}
	return p.byName
}

// everyImage returns the images of all packs, each with the name by which lookup finds it.
func (p *packs) everyImage() ([]packFunction, error) {
	if p.every != nil {
		return p.every, nil
	}
	all, err := p.files.All()
	if err != nil {
		return nil, err
	}
	var every []packFunction
	for i, name := range lookupNames(all) {
		image, err := newPackImage(all[i])
		if err != nil {
			return nil, err
		}
		every = append(every, packFunction{image: image, name: name})
	}
	p.every = every
	return every, nil
}

// lookupNames returns the names by which lookup finds the images of packs. If several packs share a
// name, these are their build ids.
func lookupNames(all []*pack.Pack) (names []string) {
	builds := make(map[string]int)
	for _, each := range all {
		builds[each.Info().Name]++
	}
	for _, each := range all {
		if name := each.Info().Name; builds[name] == 1 {
			names = append(names, name)
		} else {
			names = append(names, each.Info().BuildID)
		}
	}
	return names
}

// atOffsetInPacks is atOffset for packs alone. A query that begins with an address is still a range
// of the running kernel, as without packs.
func (l *lookup) atOffsetInPacks(ctx context.Context, q *query) ([]*answer, error) {
	if start, end, ok := q.startAndLength(); ok && start > math.MaxInt64 {
		return l.inRange(ctx, start, end)
	}
	var found []*answer
	noImage := fmt.Errorf("%w: %q", errNoFunction, q.text)
	if q.size == 0 && q.module == "" {
		a, err := l.inPack(q.name, q.offset)
		if err != nil && !errors.Is(err, errNoPack) {
			return nil, err
		}
		if noImage = err; err == nil {
			found = append(found, a)
		}
	}
	if q.offset < 0 || pack.IsBuildID(q.name) {
		return found, noImage
	}
	functions, err := l.packs.functions(q)
	if err != nil {
		return nil, err
	}
	for _, f := range functions {
		if q.fits(f.symbol.End()-f.symbol.Start, l.caller) {
			found = append(found, f.at(q.offset, l.caller))
		}
	}
	if len(found) == 0 && len(functions) == 0 {
		return nil, noImage
	}
	return []*answer{decide(q, found, q.misfit())}, nil
}
