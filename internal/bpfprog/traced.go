// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/kernelsym/kernelsym/internal/btf"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// traced has the functions of the core kernel and of modules that trampolines belong to (see contract 3.5). What a key
// stands for never changes, so a function is found once.
type traced struct {
	functions map[timeline.TrampolineKey]timeline.TracedFunction // tables share it, so it is replaced, never changed
	unknown   []timeline.TrampolineKey                           // must be found
}

// maxTraced is the maximum number of functions. If there are more, the ones so far are forgotten.
const maxTraced = 1 << 16

func newTraced() traced {
	return traced{functions: make(map[timeline.TrampolineKey]timeline.TracedFunction)}
}

// add adds a trampoline whose function may have to be found. Other images are ignored.
func (t *traced) add(m *timeline.Image) {
	key, ok := timeline.KeyOf(m.Name())
	if _, isKnown := t.functions[key]; ok && !isKnown && m.Origin == timeline.OriginTrampoline && key.IsOfKernel() {
		t.unknown = append(t.unknown, key)
	}
}

// take returns the keys whose functions must be found, which the caller does.
func (t *traced) take() []timeline.TrampolineKey {
	keys := t.unknown
	t.unknown = nil
	return keys
}

// found adds functions.
func (t *traced) found(functions map[timeline.TrampolineKey]timeline.TracedFunction) {
	all := maps.Clone(t.functions)
	if len(all)+len(functions) > maxTraced {
		clear(all)
	}
	maps.Copy(all, functions)
	t.functions = all
}

// lackTraced returns the number of loaded trampolines whose functions could not be found.
func (f *follower) lackTraced() (n int) {
	for _, m := range f.ledger.Images() {
		key, ok := timeline.KeyOf(m.Name())
		if function, isKnown := f.traced.functions[key]; ok && isKnown && function == (timeline.TracedFunction{}) {
			n++
		}
	}
	return n
}

// A functionFinder finds the functions that trampolines belong to, in BTF. It is for one goroutine.
type functionFinder struct {
	programs ProgramReader
	sysfs    string
}

// find returns the functions with some keys. A key whose function cannot be found has the zero value, and the error
// says why; that a module was unloaded in the meantime is no error.
//
// A module's types are numbered after the core kernel's. So a number in the core kernel's BTF is the core kernel's own,
// whatever the id of the BTF object is. Two modules can have the same number, but not the same BTF object.
func (f *functionFinder) find(keys []timeline.TrampolineKey) (map[timeline.TrampolineKey]timeline.TracedFunction, error) {
	found := make(map[timeline.TrampolineKey]timeline.TracedFunction, len(keys))
	for _, key := range keys {
		found[key] = timeline.TracedFunction{}
	}
	core, err := readCoreBTF(f.sysfs)
	if err != nil {
		return found, err
	}
	later, err := findIn(core, timeline.KernelName, keys, found)
	errs := []error{err}
	byObject := make(map[uint32][]timeline.TrampolineKey)
	for _, key := range later {
		byObject[key.Object()] = append(byObject[key.Object()], key)
	}
	for object, keys := range byObject {
		module, types, err := f.programs.ModuleBTF(object, core)
		if err == nil {
			_, err = findIn(types, module, keys, found)
		}
		if isFailure(err) {
			errs = append(errs, err)
		}
	}
	return found, errors.Join(errs...)
}

// findIn adds the functions of an image to those found. It returns the keys with higher numbers than its BTF has.
func findIn(types *btf.BTF, image string, keys []timeline.TrampolineKey, found map[timeline.TrampolineKey]timeline.TracedFunction) (later []timeline.TrampolineKey, err error) {
	byType := make(map[uint32][]timeline.TrampolineKey, len(keys))
	for _, key := range keys {
		byType[key.Type()] = append(byType[key.Type()], key)
	}
	last := uint32(0)
	for t, err := range types.Types() {
		if err != nil {
			return nil, err
		}
		if last = t.ID; t.Kind != btf.KindFunc {
			continue
		}
		for _, key := range byType[t.ID] {
			found[key] = timeline.TracedFunction{Image: image, Name: types.Name(t)}
		}
	}
	for _, key := range keys {
		if key.Type() > last {
			later = append(later, key)
		}
	}
	return later, nil
}

// readCoreBTF reads the BTF of the core kernel, which any user may. It is read again for each batch of new trampolines: kept,
// it would take 5 MB for good.
func readCoreBTF(sysfs string) (*btf.BTF, error) {
	file := filepath.Join(sysfs, "kernel", "btf", "vmlinux")
	data, err := os.ReadFile(file) // which allocates the size of the file at once
	if err != nil {
		return nil, fmt.Errorf("reading BTF: %w", err)
	}
	types, err := btf.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return types, nil
}
