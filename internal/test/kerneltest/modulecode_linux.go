// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"cmp"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ModuleCode describes the code of a module, from its file.
type ModuleCode struct {
	BuildID   string     // in hex
	Functions []Function // in .text, from its start, each up to the next
	TextSize  uint64     // bytes
	elsewhere []string   // functions in other sections
}

// A Function is a function of a ModuleCode.
type Function struct {
	Name       string
	Start, End uint64
}

// ReadModuleCode reads the file of a module.
func ReadModuleCode(t testing.TB, name string) *ModuleCode {
	t.Helper()
	code, err := FindModule(t, name).Code()
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// Code reads the file of a module.
func (m *ModuleFile) Code() (*ModuleCode, error) {
	f, err := elf.Open(m.File)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	note, text := f.Section(".note.gnu.build-id"), f.Section(".text")
	if note == nil || text == nil {
		return nil, fmt.Errorf("%s: no build id or no code", m.File)
	}
	id, noteErr := note.Data()
	symbols, err := f.Symbols()
	if err = errors.Join(noteErr, err); err != nil {
		return nil, err
	}
	const header = 16 // of the note, with "GNU\0"
	code := &ModuleCode{BuildID: hex.EncodeToString(id[header:]), TextSize: text.Size}
	for _, s := range symbols {
		switch {
		case elf.ST_TYPE(s.Info) != elf.STT_FUNC || int(s.Section) >= len(f.Sections):
		case f.Sections[s.Section] == text:
			code.Functions = append(code.Functions, Function{s.Name, s.Value, text.Size})
		default:
			code.elsewhere = append(code.elsewhere, s.Name)
		}
	}
	slices.SortFunc(code.Functions, func(a, b Function) int { return cmp.Compare(a.Start, b.Start) })
	for i := 1; i < len(code.Functions); i++ {
		code.Functions[i-1].End = code.Functions[i].Start
	}
	return code, nil
}

// Has reports whether an offset from .text can belong to the function.
func (c *ModuleCode) Has(name string, offset uint64) bool {
	if offset >= c.TextSize {
		return slices.Contains(c.elsewhere, name)
	}
	return slices.ContainsFunc(c.Functions, func(f Function) bool {
		return f.Name == name && f.Start <= offset && offset < f.End
	})
}

// TextOf returns the kernel's address for the .text of a loaded module.
func TextOf(module string) (uint64, error) {
	text, err := os.ReadFile(filepath.Join("/sys/module", module, "sections/.text"))
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimPrefix(strings.TrimSpace(string(text)), "0x"), 16, 64)
}
