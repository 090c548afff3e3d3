package kallsyms

import (
	"errors"
	"fmt"
	"io"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// The errors of ParseCore that say what to do or what is wrong.
var (
	// ErrRestricted is returned for a list in which every address is zero. The
	// kernel decides that when the file is opened (kallsyms_show_value in
	// kernel/ksyms_common.c).
	ErrRestricted = errors.New("the kernel hides its addresses (every address in kallsyms is zero): " +
		"grant CAP_SYSLOG and set the sysctl kernel.kptr_restrict to 0 or 1")

	// ErrNoText is returned for a list without the symbols that mark the ends of
	// the kernel's text: it is cut off, or not of a kernel.
	ErrNoText = errors.New("no _text or _stext and _etext in the list of kernel symbols: cut off?")
)

// ParseCore reads the symbols of the core kernel, up to the first line that has
// a module, and makes the module "vmlinux" of them. Its text is what lies
// between _text or _stext, the lower of them, and _etext; symbols outside, those
// of init text for one, are not in the result. It is valid always.
func ParseCore(r io.Reader, buildID, fileID string) (*symtab.Module, error) {
	var (
		s    = NewScanner(r)
		line Line
		b    symtab.Builder
		text textRange
	)
	for text.end == 0 {
		if err := s.Scan(&line); err != nil {
			if errors.Is(err, io.EOF) {
				break
			}
			return nil, err
		}
		if len(line.Module) > 0 {
			break
		}
		b.Add(line.Addr, line.Type, line.Name)
		text.note(&line, &b)
		if text.hidden() {
			return nil, ErrRestricted
		}
	}
	switch {
	case text.anyLine && !text.anyAddr:
		return nil, ErrRestricted
	case text.start == 0 || text.end == 0:
		return nil, ErrNoText
	}
	m, err := b.Build(symtab.ModuleInfo{
		Name:    symtab.KernelName,
		Origin:  symtab.OriginKernel,
		BuildID: buildID,
		FileID:  fileID,
		Base:    text.start,
		Start:   text.start,
		End:     text.end,
		Valid:   symtab.Always,
	})
	if err != nil {
		return nil, fmt.Errorf("core kernel: %w", err)
	}
	return m, nil
}

// textRange finds the ends of the kernel's text.
type textRange struct {
	start, end  uint64 // 0 while not seen
	anyLine     bool
	anyAddr     bool // an address other than 0 was seen
	zeroAtStart bool // _text or _stext has address 0
}

func (t *textRange) note(line *Line, b *symtab.Builder) {
	t.anyLine = true
	if line.Addr != 0 {
		t.anyAddr = true
	}
	if len(line.Name) > len("_stext") || line.Name[0] != '_' {
		return
	}
	switch string(line.Name) {
	case "_text", "_stext":
		if line.Addr == 0 {
			t.zeroAtStart = true
		}
		if t.start == 0 {
			t.start = line.Addr
			b.StartAt(line.Addr)
		}
	case "_etext":
		t.end = line.Addr
	}
}

// hidden reports that the rest of the list need not be read to know that all
// addresses are zero.
func (t *textRange) hidden() bool { return t.zeroAtStart && !t.anyAddr }
