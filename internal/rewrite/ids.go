// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// byID returns the core kernel or module that has the ids of a mapping, nil if none has
// all of them. A file ID can be that of one load of a build, so it comes first.
func (r *resolver) byID(c *mappingContent) *timeline.Image {
	image, ok := r.snapshot.ByFileID(c.fileID)
	if c.fileID == "" {
		image, ok = r.snapshot.ByBuildID(c.buildID)
	}
	if !ok || !hasIDs(image, c) {
		return nil
	}
	return image
}

// hasIDs reports whether the ids of a mapping are those of an image.
func hasIDs(image *timeline.Image, c *mappingContent) bool {
	switch {
	case image.Text == nil:
		return c.buildID == "" && (c.fileID == buildid.SymbolFileID(image.Name()) || c.fileID == image.LoadedFileID())
	case c.buildID != "" && c.buildID != image.BuildID():
		return false
	}
	return c.fileID == "" || c.fileID == image.Text.FileID || c.fileID == image.LoadedFileID()
}

// contradicts reports whether the ids of a mapping are those of another build than the
// absolute address of a frame lies in, or of none that is known (contract 2.1). image is
// what the address was, nil if that is not certain.
func (r *resolver) contradicts(c *mappingContent, image *timeline.Image) bool {
	switch {
	case !c.hasID():
		return false
	case image == nil:
		return !r.knows(c)
	}
	return !hasIDs(image, c)
}

// knows reports whether the ids of a mapping are those of an image that is there or in the
// history.
func (r *resolver) knows(c *mappingContent) bool {
	return r.byID(c) != nil || c.buildID == "" && r.snapshot.HasFunctionID(c.fileID)
}

// wanted is the builds that packs are wanted of, as [Result] has them.
type wanted struct {
	builds, files []string
	has           map[wantedID]struct{}
}

type wantedID struct {
	id     string
	isFile bool
}

func (w *wanted) addBuild(id string) {
	if w.isNew(wantedID{id: id}) {
		w.builds = append(w.builds, id)
	}
}

// addMapping adds what identifies a build in a mapping.
func (w *wanted) addMapping(c *mappingContent) {
	if c.buildID != "" {
		w.addBuild(c.buildID)
	} else if len(c.fileID) == buildid.FileIDLen && w.isNew(wantedID{c.fileID, true}) {
		w.files = append(w.files, c.fileID)
	}
}

// isNew reports whether an id was not there, and is fit to be part of a file name
// (contract 10.3).
func (w *wanted) isNew(id wantedID) bool {
	if _, ok := w.has[id]; ok || !pack.IsBuildID(id.id) {
		return false
	}
	if w.has == nil {
		w.has = make(map[wantedID]struct{})
	}
	w.has[id] = struct{}{}
	return true
}
