// SPDX-License-Identifier: Apache-2.0

package inline

import (
	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// Wanted lists the builds whose packs would add something, whether these are open or not. Each is listed once,
// and can be part of a file name (see contract 10.3).
type Wanted struct {
	BuildIDs []string
	FileIDs  []string // of builds whose build id is not known

	listed map[wantedID]struct{}
}

type wantedID struct {
	id     string
	isFile bool
}

// Add lists a build by its build id or, if that is empty, by its file ID. Anything that is neither is ignored.
func (w *Wanted) Add(buildID, fileID string) {
	switch {
	case buildID != "":
		if w.isNew(wantedID{buildID, false}) {
			w.BuildIDs = append(w.BuildIDs, buildID)
		}
	case len(fileID) == buildid.FileIDLen && w.isNew(wantedID{fileID, true}):
		w.FileIDs = append(w.FileIDs, fileID)
	}
}

func (w *Wanted) isNew(id wantedID) bool {
	if _, ok := w.listed[id]; ok || !pack.IsBuildID(id.id) {
		return false
	}
	if w.listed == nil {
		w.listed = make(map[wantedID]struct{})
	}
	w.listed[id] = struct{}{}
	return true
}
