// SPDX-License-Identifier: Apache-2.0

// Package newfile writes files for the user.
package newfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Write makes a file anew, with its mode whatever the umask is. A file of that name is replaced only once the new one is
// complete. It follows no symbolic link, which somebody else may have put there, and returns an error instead. A pipe or
// device is written to.
func Write(name string, content []byte, mode fs.FileMode) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a symbolic link: name the file itself, or - for standard output", name)
	case !info.Mode().IsRegular():
		return os.WriteFile(name, content, mode)
	}
	return replace(name, content, mode)
}

// replace writes a temporary file beside the file, and gives it the file's name.
func replace(name string, content []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		failed.Path = name // the user does not know the other
		return failed
	} else if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
