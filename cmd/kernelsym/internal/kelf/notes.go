// SPDX-License-Identifier: Apache-2.0

package kelf

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"

	"github.com/kernelsym/kernelsym/internal/buildid"
)

// readBuildID returns the GNU build id: of .notes, as the core kernel has it, or of
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

// maxSmall bounds what is read of a section as a whole that is no debug information:
// symbols and their names, of which the largest kernels have some ten megabytes.
const maxSmall = 512 << 20

// read returns the content of a section; nothing if the file has it without content, as
// files of debug information alone do.
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
