// SPDX-License-Identifier: Apache-2.0

package symbolize

import "github.com/kernelsym/kernelsym/internal/timeline"

// imageOf returns the core kernel or module that a mapping identifies whenever the sample was taken: by its ids or, if
// it has none, by the name of the core kernel. It returns nil if there is none.
func (k *Kernel) imageOf(m *Mapping) *timeline.Image {
	if !m.isLocated {
		m.isLocated = true
		switch {
		case m.MayBeNone:
		case m.hasID():
			m.image = k.withIDs(m)
		case m.name.module == timeline.KernelName:
			m.image = k.Snapshot().Core()
		}
	}
	return m.image
}

// withIDs returns the core kernel or module that the ids of a mapping identify, nil if none has all of them. A file ID
// can stand for one load of a build, so it is asked first.
func (k *Kernel) withIDs(m *Mapping) *timeline.Image {
	image, ok := k.Snapshot().ByFileID(m.FileID)
	if m.FileID == "" {
		image, ok = k.Snapshot().ByBuildID(m.BuildID)
	}
	if !ok || !k.hasIDs(image, m) {
		return nil
	}
	return image
}

// hasIDs reports whether a mapping has the ids of an image.
func (k *Kernel) hasIDs(image *timeline.Image, m *Mapping) bool {
	switch {
	case image.IsFunction():
		return m.BuildID == "" && image.HasFileID(m.FileID, k.readsAbsolute())
	case m.BuildID != "" && m.BuildID != image.BuildID():
		return false
	}
	return m.FileID == "" || image.HasFileID(m.FileID, k.readsAbsolute())
}

// isForeign reports whether the ids of a mapping belong to another build than the image that an absolute
// address lies in (contract 2.1). If that image is not known, which nil means, it reports whether they belong
// to no image of this kernel.
func (k *Kernel) isForeign(m *Mapping, image *timeline.Image) bool {
	switch {
	case !m.hasID():
		return false
	case image == nil:
		return !k.isKnown(m)
	}
	return !k.hasIDs(image, m)
}

// isKnown reports whether the ids of a mapping belong to an image that is loaded or in the history.
func (k *Kernel) isKnown(m *Mapping) bool {
	return k.withIDs(m) != nil || m.BuildID == "" && k.Snapshot().HasFunctionID(m.FileID, k.readsAbsolute())
}
