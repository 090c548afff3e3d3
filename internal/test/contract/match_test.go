// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// differs returns how got differs from the wanted frame, empty if it equals that frame or an accepted
// alternative.
func (w *want) differs(got rewritetest.Frame) string {
	diff := w.match(got)
	for i := range w.or {
		if diff == "" {
			break
		}
		if w.or[i].match(got) == "" {
			diff = ""
		}
	}
	return diff
}

// match returns how got differs from the wanted frame, empty if it does not.
func (w *want) match(got rewritetest.Frame) string {
	f, g := w.frame, got
	f.Mapping, g.Mapping = nil, nil
	isNew := w.resolved != nil || w.label != ""
	if isNew {
		if folded, ok := g.Attributes[keyFolded]; ok && w.resolved != nil && len(f.Lines) == 1 && folded != w.resolved.folded {
			return fmt.Sprintf("is_folded is %v", folded)
		}
		f.Attributes, g.Attributes = without(f.Attributes, keyFolded), without(g.Attributes, keyFolded)
	}
	if w.label != "" && len(g.Lines) == 1 && strings.HasPrefix(g.Lines[0].Name, w.label) {
		f.Lines = g.Lines
	}
	if len(f.Lines) == 0 && len(g.Lines) == 0 {
		f.Lines, g.Lines = nil, nil
	}
	if !reflect.DeepEqual(f, g) {
		return fmt.Sprintf("got %s, want %s", show(got), show(w.frame))
	}
	for _, m := range w.mappings {
		if mappingsEqual(m, got.Mapping) {
			return w.flags(&got)
		}
	}
	return fmt.Sprintf("got mapping %+v, want %+v", got.Mapping, w.mappings[0])
}

// flags returns which attribute violates section 4.4, empty if none does.
func (w *want) flags(f *rewritetest.Frame) string {
	if f.Mapping == nil || w.resolved == nil && !w.gained {
		return ""
	}
	var files, numbers bool
	for _, line := range f.Lines {
		files, numbers = files || line.File != "", numbers || line.Line != 0
	}
	for key, should := range map[string]bool{keyHasFunctions: true, keyHasFiles: files, keyHasLines: numbers} {
		if has, ok := f.Mapping.Attributes[key]; ok && should && has != true {
			return key + " is false, the frame has some"
		}
	}
	return ""
}

func without(attributes map[string]any, key string) map[string]any {
	c := maps.Clone(attributes)
	delete(c, key)
	if len(c) == 0 {
		return nil
	}
	return c
}

func mappingsEqual(a, b *rewritetest.Mapping) bool {
	if a == nil || b == nil {
		return a == b
	}
	c, d := *a, *b
	if d.File == "[__builtin__kprobes]" && c.File == "[bpf]" {
		d.File = c.File // the contract does not say more than "the same"
	}
	for _, key := range []string{keyHasFunctions, keyHasLines, keyHasFiles} {
		c.Attributes, d.Attributes = without(c.Attributes, key), without(d.Attributes, key)
	}
	return reflect.DeepEqual(c, d)
}
