// SPDX-License-Identifier: Apache-2.0

package kelf

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"

	"github.com/kernelsym/kernelsym/internal/buildid"
)

// readBuildID returns the GNU build id. It is in .notes of the core kernel, or in
// .note.gnu.build-id.
func readBuildID(f *elf.File) (string, error) {
	err := buildid.ErrNotFound
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOTE {
			continue
		}
		id, noteErr := buildid.ParseOrder(s.Open(), f.ByteOrder)
		if noteErr == nil {
			return id, nil
		}
		if !errors.Is(noteErr, buildid.ErrNotFound) {
			err = fmt.Errorf("section %s: %w", s.Name, noteErr)
		}
	}
	return "", err
}

// maxSmall bounds the size of a section that is read as a whole and has no debug information. Such
// sections have symbols and their names, which take some ten megabytes in the largest kernels.
const maxSmall = 512 << 20

// read returns the contents of a section. It returns nothing if the section has no contents, as in
// files of debug information alone.
func read(s *elf.Section) ([]byte, error) {
	if s == nil || s.Type == elf.SHT_NOBITS {
		return nil, nil
	}
	if s.Size > maxSmall {
		return nil, fmt.Errorf("section %s: %w: %d bytes", s.Name, errors.ErrUnsupported, s.Size)
	}
	data, err := io.ReadAll(io.LimitReader(s.Open(), maxSmall))
	if err != nil {
		return nil, fmt.Errorf("section %s: %w", s.Name, err)
	}
	return data, nil
}
