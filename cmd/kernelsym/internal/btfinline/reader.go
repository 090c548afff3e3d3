// SPDX-License-Identifier: Apache-2.0

package btfinline

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kernelsym/kernelsym/internal/btf"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// ErrNone is returned if this kernel does not list where functions were inlined.
var ErrNone = errors.New("no *.inline files: kernels have them from Linux 7.4 on (expected), " +
	"if built with CONFIG_DEBUG_INFO_BTF_INLINE")

// suffix ends the names of files with sites.
const suffix = ".inline"

// A Site is where the code of an inlined function begins.
type Site struct {
	Entry   Entry
	Object  string // "vmlinux" or a module's name
	Address uint64 // address in memory; 0 if the section's address is unknown
}

// A Reader reads the sites of the running kernel. It is not safe for concurrent use.
type Reader struct {
	procfs, sysfs string
	match         func(name string) bool

	kernel    *btf.BTF // the core kernel's; nil until read
	functions Functions
}

// NewReader returns a reader of the sites of functions whose names match. procfs and sysfs are the
// directories at which /proc and /sys are mounted.
func NewReader(procfs, sysfs string, match func(name string) bool) *Reader {
	return &Reader{procfs: procfs, sysfs: sysfs, match: match}
}

// Read returns the sites in the order of function, object and address. Some kernels have the sites
// of the core kernel in a module of their own. Reading them loads that module, which keeps 9.5 MB
// of memory. The error wraps ErrNone if there is nothing to read. Any other error names the files
// that could not be read; Read still returns the sites of the others.
func (r *Reader) Read() (sites []Site, err error) {
	files, err := filepath.Glob(filepath.Join(r.sysfs, "kernel", "btf", "*"+suffix))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: %w", filepath.Join(r.sysfs, "kernel", "btf"), ErrNone)
	}
	for _, file := range files {
		object := strings.TrimSuffix(filepath.Base(file), suffix)
		some, errObject := r.object(object)
		if errObject != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", file, errObject))
			continue
		}
		sites = append(sites, some...)
	}
	slices.SortFunc(sites, func(a, b Site) int {
		return cmp.Or(strings.Compare(a.Entry.Function, b.Entry.Function), strings.Compare(a.Object, b.Object),
			cmp.Compare(a.Address, b.Address), strings.Compare(a.Entry.Section, b.Entry.Section), cmp.Compare(a.Entry.Offset, b.Entry.Offset))
	})
	return sites, err
}

// object returns the sites in the core kernel or a module.
func (r *Reader) object(name string) ([]Site, error) {
	if r.kernel == nil {
		kernel, functions, err := r.layer(timeline.KernelName, nil)
		if err != nil {
			return nil, err
		}
		r.kernel, r.functions = kernel, functions
	}
	base, layers := r.kernel, []Functions{r.functions}
	if name != timeline.KernelName {
		module, functions, err := r.layer(name, base)
		if err != nil {
			return nil, err
		}
		base, layers = module, append(layers, functions)
	}
	inline, functions, err := r.layer(name+suffix, base)
	if err != nil {
		return nil, err
	}
	entries, err := Entries(inline, append(layers, functions)...)
	if err != nil {
		return nil, err
	}
	return r.placed(name, entries)
}

// layer reads a file of BTF and the matching functions in it.
func (r *Reader) layer(file string, base *btf.BTF) (b *btf.BTF, f Functions, err error) {
	data, err := os.ReadFile(filepath.Join(r.sysfs, "kernel", "btf", file))
	if err != nil {
		return nil, nil, err
	}
	if base == nil {
		b, err = btf.Parse(data)
	} else {
		b, err = btf.ParseSplit(data, base)
	}
	if err == nil {
		f, err = Matching(b, r.match)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return b, f, nil
}

// placed returns the sites of an object's entries, with their addresses.
func (r *Reader) placed(object string, entries []Entry) ([]Site, error) {
	bases := make(map[string]uint64)
	sites := make([]Site, 0, len(entries))
	for _, e := range entries {
		base, ok := bases[e.Section]
		if !ok {
			var err error
			if base, err = r.section(object, e.Section); err != nil {
				return nil, err
			}
			bases[e.Section] = base
		}
		site := Site{Entry: e, Object: object}
		if base != 0 {
			site.Address = base + uint64(e.Offset)
		}
		sites = append(sites, site)
	}
	return sites, nil
}

// section returns the address at which a section of an object begins, or 0 if it is unknown. It is
// always 0 for the init text of a module, whose memory no longer belongs to the module.
func (r *Reader) section(object, section string) (uint64, error) {
	switch {
	case object == timeline.KernelName && section == ".text":
		return r.stext()
	case object == timeline.KernelName, strings.HasPrefix(section, ".init"):
		return 0, nil
	}
	text, err := os.ReadFile(filepath.Join(r.sysfs, "module", object, "sections", section))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	addr, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimSpace(string(text)), "0x"), 16, 64)
	if err != nil {
		return 0, fmt.Errorf("the address of %s in %s: %w", section, object, err)
	}
	return addr, nil
}

// stext returns the address of _stext, at which the core kernel's .text begins. _text is lower if
// there is a .head.text.
func (r *Reader) stext() (uint64, error) {
	f, err := os.Open(filepath.Join(r.procfs, "kallsyms"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	scanner := kallsyms.NewScanner(f)
	var line kallsyms.Line
	for {
		err := scanner.Scan(&line)
		switch {
		case errors.Is(err, io.EOF) || err == nil && len(line.Module) > 0:
			return 0, fmt.Errorf("%s: %w", f.Name(), kallsyms.ErrNoText)
		case err != nil:
			return 0, fmt.Errorf("%s: %w", f.Name(), err)
		case string(line.Name) == "_stext" && line.Addr == 0:
			return 0, fmt.Errorf("%s: %w", f.Name(), kallsyms.ErrRestricted)
		case string(line.Name) == "_stext":
			return line.Addr, nil
		}
	}
}
