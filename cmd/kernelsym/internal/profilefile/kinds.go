// SPDX-License-Identifier: Apache-2.0

package profilefile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
	"github.com/kernelsym/kernelsym/internal/rewrite"
)

// Kinds selects the profiles whose values are of one type, because values of several cannot be added: of the type with a
// name or, if that is empty, of the first profile's.
type Kinds struct {
	wanted   string
	selected bool
	is       rewrite.ValueType         // the selected type
	others   map[rewrite.ValueType]int // the number of profiles of each other type
}

// NewKinds returns a selection of the type with a name, or of the first if the name is empty.
func NewKinds(wanted string) Kinds {
	return Kinds{wanted: wanted, others: make(map[rewrite.ValueType]int)}
}

// Skips reports whether to leave out a profile, and counts it if so.
func (k *Kinds) Skips(p rewrite.NamedProfile) bool {
	kind := p.Type()
	if !k.selected && (k.wanted == "" || k.wanted == kind.Name) {
		k.selected, k.is = true, kind
	}
	if k.selected && k.is == kind {
		return false
	}
	k.others[kind]++
	return true
}

// Type returns the selected type, the zero value if there is no profile of it.
func (k *Kinds) Type() rewrite.ValueType { return k.is }

// Others describes the profiles that were left out, in one line. It is empty if there are none.
func (k *Kinds) Others() string {
	var list []string
	for _, kind := range slices.SortedFunc(maps.Keys(k.others), func(a, b rewrite.ValueType) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Unit, b.Unit))
	}) {
		list = append(list, fmt.Sprintf("%s with values of type %s in %s", plural.Of(k.others[kind], "profile"),
			cmp.Or(kind.Name, "(no name)"), cmp.Or(kind.Unit, "no unit")))
	}
	return strings.Join(list, ", ")
}
