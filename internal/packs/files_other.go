// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package packs

import (
	"errors"
	"io/fs"
	"os"
)

// foreignOwner knows no users.
func foreignOwner(fs.FileInfo) (uid uint32, isForeign bool) { return 0, false }

// lock locks no file.
func lock(*os.File) error { return errors.ErrUnsupported }
