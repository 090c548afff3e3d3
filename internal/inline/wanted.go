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

	listed map[string]struct{}
}

// Add lists a build by its build id or, if that is empty, by its file ID. Anything that is neither is ignored.
func (w *Wanted) Add(buildID, fileID string) {
	switch {
	case buildID != "":
		if w.isNew(buildID) {
			w.BuildIDs = append(w.BuildIDs, buildID)
		}
	case len(fileID) == buildid.FileIDLen && w.isNew(fileID):
		w.FileIDs = append(w.FileIDs, fileID)
	}
}

func (w *Wanted) isNew(id string) bool {
	if _, ok := w.listed[id]; ok || !pack.IsBuildID(id) {
		return false
	}
	if w.listed == nil {
		w.listed = make(map[string]struct{})
	}
	w.listed[id] = struct{}{}
	return true
}
