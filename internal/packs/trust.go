// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// othersWrite are permissions that only the owner may have.
const othersWrite fs.FileMode = 0o022

// checkTrust returns an error for a pack or a directory of packs that others can write to.
func checkTrust(path string, info fs.FileInfo) error {
	if info.Mode()&othersWrite != 0 {
		return fmt.Errorf("%s has the mode %v: it is writable by group or others; run chmod go-w", path, info.Mode())
	}
	return checkOwner(path, info)
}

// checkOwner returns an error for a file or directory that belongs to another user.
func checkOwner(path string, info fs.FileInfo) error {
	if uid, isForeign := foreignOwner(info); isForeign {
		return fmt.Errorf("%s belongs to user %d, not to root or to the user of this process; run chown", path, uid)
	}
	return nil
}

// maxLinks is how many links a path can have, as in Linux.
const maxLinks = 40

// checkParents returns an error if others can choose what is at path. All directories above it must belong to root or
// to the user of this process, and a link must be in a directory that others cannot write to. Otherwise, others may
// write to a directory on the way, as to /tmp or a volume of Kubernetes: what they put there is a link, or belongs to
// them. A path that does not exist is checked as far as it does.
func checkParents(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return refuseAll(Unreadable, err)
	}
	root := filepath.VolumeName(path) + string(filepath.Separator)
	dir, rest := root, namesOf(path)
	for links := 0; len(rest) > 0; {
		info, err := os.Stat(dir)
		if err != nil {
			return refuseAll(Unreadable, err)
		}
		if err := checkOwner(dir, info); err != nil {
			return refuseAll(Insecure, err)
		}
		next := filepath.Join(dir, rest[0])
		rest = rest[1:]
		target, err := os.Readlink(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil: // it is no link
			dir = next
			continue
		case info.Mode()&othersWrite != 0:
			return refuseAll(Insecure, fmt.Errorf("%s is a link in a directory that is writable by group or others", next))
		}
		if links++; links > maxLinks {
			return refuseAll(Unreadable, fmt.Errorf("%s: too many links", path))
		}
		if filepath.IsAbs(target) {
			dir = root
		}
		rest = append(namesOf(target), rest...)
	}
	return nil
}

// namesOf returns the names in a path.
func namesOf(path string) []string {
	path = path[len(filepath.VolumeName(path)):]
	return strings.FieldsFunc(path, func(r rune) bool { return r < 0x80 && os.IsPathSeparator(uint8(r)) })
}
