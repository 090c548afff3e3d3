// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"io/fs"
	"os"
	"syscall"
)

// foreignOwner returns the user that a file belongs to, if that is neither root nor the user of this process.
func foreignOwner(info fs.FileInfo) (uid uint32, isForeign bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Uid == 0 || int64(stat.Uid) == int64(os.Geteuid()) {
		return 0, false
	}
	return stat.Uid, true
}

// lock locks a file until it is closed, or returns an error at once if another process or open file has locked it.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
