// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/kernelsym/kernelsym/internal/btf"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// traced has the functions of the core kernel and of modules that trampolines belong to (see contract 3.5). What a key
// stands for never changes, so a function is found once.
type traced struct {
	functions map[timeline.TrampolineKey]timeline.TracedFunction // tables share it, so it is replaced, never changed
	findAt    time.Time                                          // when to look for the unknown functions of loaded trampolines
	failed    map[timeline.TrampolineKey]bool                    // the unknown functions for which this has failed
}

// maxTraced is how many functions are kept. If there are more, only functions of loaded trampolines are kept.
const maxTraced = 1 << 16

func newTraced() traced {
	return traced{functions: make(map[timeline.TrampolineKey]timeline.TracedFunction), findAt: never}
}

// add adds an image that was loaded. If it is a trampoline, its function may have to be found, but not again at once.
func (t *traced) add(m *timeline.Image) {
	if key, ok := t.unknownOf(m); ok && !t.failed[key] {
		t.findAt = time.Time{}
	}
}

// unknownOf returns the key of a trampoline whose function must be found. It reports false for other images.
func (t *traced) unknownOf(m *timeline.Image) (key timeline.TrampolineKey, ok bool) {
	key, ok = timeline.KeyOf(m.Name())
	_, isKnown := t.functions[key]
	return key, ok && !isKnown && m.Origin == timeline.OriginTrampoline && key.IsOfKernel()
}

// untraced returns the keys of the loaded trampolines whose functions must be found, one for each trampoline.
func (f *follower) untraced() (keys []timeline.TrampolineKey) {
	for _, m := range f.ledger.Images() {
		if key, ok := f.traced.unknownOf(m); ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// handleTraced applies the functions that were found, and returns the number of loaded trampolines whose functions still
// must be. These are tried again after retryEvery.
func (f *follower) handleTraced(found map[timeline.TrampolineKey]timeline.TracedFunction) (unknown int) {
	if len(found) > 0 {
		all := maps.Clone(f.traced.functions)
		maps.Copy(all, found)
		if len(all) > maxTraced {
			f.keepLoaded(all)
		}
		f.traced.functions = all
		f.ledger.SetTraced(all)
	}
	f.traced.failed = make(map[timeline.TrampolineKey]bool)
	for _, key := range f.untraced() {
		f.traced.failed[key] = true
		unknown++
	}
	if unknown > 0 {
		f.traced.findAt = earliest(time.Now().Add(retryEvery), f.traced.findAt)
	}
	return unknown
}

// keepLoaded deletes the functions that belong to no loaded trampoline.
func (f *follower) keepLoaded(functions map[timeline.TrampolineKey]timeline.TracedFunction) {
	loaded := make(map[timeline.TrampolineKey]bool)
	for _, m := range f.ledger.Images() {
		if key, ok := timeline.KeyOf(m.Name()); ok {
			loaded[key] = true
		}
	}
	maps.DeleteFunc(functions, func(key timeline.TrampolineKey, _ timeline.TracedFunction) bool { return !loaded[key] })
}

// A functionFinder finds the functions that trampolines belong to, in BTF. It is for one goroutine.
type functionFinder struct {
	programs ProgramReader
	sysfs    string
}

// find returns the functions with some keys. A key that certainly stands for no function, or for one of a module that was
// unloaded, has the zero value. A key whose function could not be found is left out, and the error says why.
//
// A module's types are numbered after the core kernel's. So a number in the core kernel's BTF is the core kernel's own,
// whatever the id of the BTF object is. Two modules can have the same number, but not the same BTF object.
func (f *functionFinder) find(keys []timeline.TrampolineKey) (map[timeline.TrampolineKey]timeline.TracedFunction, error) {
	found := make(map[timeline.TrampolineKey]timeline.TracedFunction, len(keys))
	if len(keys) == 0 {
		return found, nil
	}
	core, err := readCoreBTF(f.sysfs)
	if err != nil {
		return found, err
	}
	later, err := findIn(core, timeline.KernelName, keys, found)
	if err != nil {
		return found, err
	}
	byObject := make(map[uint32][]timeline.TrampolineKey)
	for _, key := range later {
		byObject[key.Object()] = append(byObject[key.Object()], key)
	}
	var errs []error
	for object, keys := range byObject {
		if err := f.findInModule(object, core, keys, found); err != nil {
			errs = append(errs, err)
		}
	}
	return found, errors.Join(errs...)
}

// findInModule adds the functions of the module that has a BTF object to those found.
func (f *functionFinder) findInModule(object uint32, core *btf.BTF, keys []timeline.TrampolineKey, found map[timeline.TrampolineKey]timeline.TracedFunction) error {
	module, types, err := f.programs.ModuleBTF(object, core)
	if err == nil {
		keys, err = findIn(types, module, keys, found)
	}
	if isFailure(err) {
		return err
	}
	for _, key := range keys { // of types that it does not have, or all if it was unloaded
		found[key] = timeline.TracedFunction{}
	}
	return nil
}

// findIn adds the functions of an image to those found; a type that is none has the zero value. It returns the keys with higher numbers than its BTF has.
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
		last = t.ID
		for _, key := range byType[t.ID] {
			if found[key] = (timeline.TracedFunction{}); t.Kind == btf.KindFunc {
				found[key] = timeline.TracedFunction{Image: image, Name: types.Name(t)}
			}
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
