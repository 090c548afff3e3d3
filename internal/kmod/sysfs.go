package kmod

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kernelsym/kernelsym/internal/buildid"
)

// loaded is what sysfs tells of a module.
type loaded struct {
	text    uint64   // address of .text, to which offsets refer
	lowest  uint64   // address of the lowest section of code
	highest uint64   // address of the highest
	starts  []uint64 // addresses of all sections, but those of code other than the lowest
	buildID string   // empty if it has none
}

// readLoaded reads the directory /sys/module/NAME. A module without code gives
// errNoCode. With an error, it returns what could be read all the same.
func readLoaded(dir string) (loaded, error) {
	l := loaded{lowest: math.MaxUint64}
	sectionsErr := l.readSections(filepath.Join(dir, "sections"))
	var notesErr error
	l.buildID, notesErr = readBuildID(filepath.Join(dir, "notes", ".note.gnu.build-id"))
	if sectionsErr == nil && l.lowest == math.MaxUint64 {
		return l, errNoCode
	}
	if l.text == 0 {
		l.text = l.lowest
	}
	l.starts = append(l.starts, l.lowest)
	return l, errors.Join(sectionsErr, notesErr)
}

func (l *loaded) readSections(dir string) error {
	sections, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, section := range sections {
		if !stays(section.Name()) {
			continue
		}
		addr, err := readAddr(filepath.Join(dir, section.Name()))
		if err != nil {
			return err
		}
		switch {
		case addr == 0: // empty, or hidden
		case isCode(section.Name()):
			l.lowest, l.highest = min(l.lowest, addr), max(l.highest, addr)
			if section.Name() == ".text" {
				l.text = addr
			}
		default:
			l.starts = append(l.starts, addr)
		}
	}
	return nil
}

var errNoCode = errors.New("module has no code section with an address")

// stays reports whether a section is there as long as the module is. The memory
// of others is freed once the module is initialized, and serves other modules.
func stays(section string) bool {
	switch section {
	case ".symtab", ".strtab":
		return false
	}
	return !strings.HasPrefix(section, ".init")
}

// isCode reports whether a section holds code. (What a livepatch has in sections
// that begin with .klp. are relocations.)
func isCode(section string) bool {
	switch {
	case strings.HasPrefix(section, ".klp."):
		return false
	case section == ".text", strings.HasPrefix(section, ".text."):
		return true
	}
	return strings.HasSuffix(section, ".text")
}

// readAddr reads a file that holds an address, as "0x%px\n".
func readAddr(name string) (uint64, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	addr, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimSpace(string(text)), "0x"), 16, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %w", name, ErrSyntax, err)
	}
	return addr, nil
}

// readBuildID returns the build id in a file of notes, "" if there is none.
func readBuildID(name string) (string, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	id, err := buildid.Parse(f)
	if err != nil && !errors.Is(err, buildid.ErrNotFound) {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return id, nil
}
