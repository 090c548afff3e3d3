// SPDX-License-Identifier: Apache-2.0

package profilefile

import "github.com/kernelsym/kernelsym/internal/rewrite"

// Kinds compares the types of values. The zero value has not compared any.
type Kinds struct {
	first   *rewrite.ValueType // of the first profile
	skipped int
}

// Skips reports whether to leave out a profile, and counts it if so. Values of a type other than
// the first profile's cannot be added to them.
func (k *Kinds) Skips(p rewrite.NamedProfile) bool {
	kind := p.Type()
	if k.first == nil {
		k.first = &kind
	}
	if *k.first == kind {
		return false
	}
	k.skipped++
	return true
}

// Type returns the name of the type of the values that count, empty if there are none.
func (k *Kinds) Type() string {
	if k.first == nil {
		return ""
	}
	return k.first.Name
}

// Skipped returns the number of profiles that were left out.
func (k *Kinds) Skipped() int { return k.skipped }
