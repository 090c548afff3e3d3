// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"math"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// spoil sets one index of a message to an entry that does not exist, and returns which. The rewrite does not
// read links.
func (w *world) spoil(pd pprofile.Profiles) string {
	d := pd.Dictionary()
	var spots []spot
	add := func(what string, length int, set func(int32)) {
		spots = append(spots, spot{what, length, set})
	}
	list := func(what string, length int, indices pcommon.Int32Slice) {
		add(what, length, func(bad int32) { indices.Append(bad) })
	}
	str, attrs := d.StringTable().Len(), d.AttributeTable().Len()
	for _, a := range d.AttributeTable().All() {
		add("attribute key", str, a.SetKeyStrindex)
		add("attribute unit", str, a.SetUnitStrindex)
	}
	for _, m := range d.MappingTable().All() {
		add("mapping file name", str, m.SetFilenameStrindex)
		list("mapping attribute", attrs, m.AttributeIndices())
	}
	for _, f := range d.FunctionTable().All() {
		add("function name", str, f.SetNameStrindex)
		add("function system name", str, f.SetSystemNameStrindex)
		add("function file name", str, f.SetFilenameStrindex)
	}
	for _, l := range d.LocationTable().All() {
		add("location mapping", d.MappingTable().Len(), l.SetMappingIndex)
		list("location attribute", attrs, l.AttributeIndices())
		for _, line := range l.Lines().All() {
			add("line function", d.FunctionTable().Len(), line.SetFunctionIndex)
		}
	}
	for _, s := range d.StackTable().All() {
		list("stack location", d.LocationTable().Len(), s.LocationIndices())
	}
	for _, s := range samplesOf(pd) {
		add("sample stack", d.StackTable().Len(), s.sample.SetStackIndex)
		list("sample attribute", attrs, s.sample.AttributeIndices())
		list("profile attribute", attrs, s.profile.AttributeIndices())
		add("sample type", str, s.profile.SampleType().SetTypeStrindex)
		add("period unit", str, s.profile.PeriodType().SetUnitStrindex)
	}
	s := spots[w.r.Intn(len(spots))]
	s.set([]int32{int32(s.length), int32(s.length + w.r.Intn(9)), -1, math.MaxInt32, math.MinInt32}[w.r.Intn(5)])
	return s.what
}

// A spot is where an index stands.
type spot struct {
	what   string
	length int // of the table that it points to
	set    func(int32)
}
