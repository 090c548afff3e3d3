// SPDX-License-Identifier: Apache-2.0

package rewritetest

import (
	"fmt"
	"iter"
	"maps"
	"regexp"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// refused is why backends refuse a message or lose a part of it. The texts say only what
// matters to the backend, so that those of a message before and after can be compared.
type refused map[string]bool

func (r refused) addf(format string, args ...any) { r[fmt.Sprintf(format, args...)] = true }

func (r refused) all() iter.Seq[string] { return maps.Keys(r) }

// without returns what is not in other.
func (r refused) without(other refused) refused {
	rest := maps.Clone(r)
	maps.DeleteFunc(rest, func(text string, _ bool) bool { return other[text] })
	return rest
}

// refusals returns why a message is refused for its samples and for its kernel frames, or
// for all frames.
func refusals(pd pprofile.Profiles, all bool) refused {
	r := make(refused)
	for i, rp := range pd.ResourceProfiles().All() {
		for k, sp := range rp.ScopeProfiles().All() {
			for l, profile := range sp.Profiles().All() {
				r.profile(fmt.Sprintf("profile %d.%d.%d", i, k, l), pd.Dictionary(), profile)
			}
		}
	}
	for i, loc := range pd.Dictionary().LocationTable().All() {
		f := FrameAt(pd.Dictionary(), int32(i))
		if !all && !isKernel(&f) {
			continue
		}
		r.attributes(pd.Dictionary(), loc.AttributeIndices())
		if m := f.Mapping; m != nil {
			indices := pd.Dictionary().MappingTable().At(int(loc.MappingIndex())).AttributeIndices()
			r.attributes(pd.Dictionary(), indices)
			if indices.Len() > 0 && keysOf(pd.Dictionary(), indices)[keyFileID] == 0 { // devfiler refuses the request
				r.addf("contract 4.2: a mapping has attributes but no file ID: %+v", *m)
			}
			r.mapping(&f)
		}
	}
	return r
}

// profile: Pyroscope takes no sample whose number of values is not that of the profile's
// types, which is 1, and refuses the whole request if the profile has a period. Without
// values, the timestamps are counted; the values of off_cpu are added up.
func (r refused) profile(name string, d pprofile.ProfilesDictionary, p pprofile.Profile) {
	isOffCPU := p.Period() == 0 && textOf(d, p.SampleType().TypeStrindex()) == "off_cpu"
	for _, s := range p.Samples().All() {
		switch n := s.Values().Len(); {
		case n == 0 && s.TimestampsUnixNano().Len() == 0:
			r.addf("%s: Pyroscope refuses a sample without values and timestamps", name)
		case n > 1 && !isOffCPU:
			r.addf("%s: Pyroscope refuses a sample of several values", name)
		}
	}
}

func textOf(d pprofile.ProfilesDictionary, i int32) string {
	if uint(i) < uint(d.StringTable().Len()) {
		return d.StringTable().At(int(i))
	}
	return ""
}

func (r refused) attributes(d pprofile.ProfilesDictionary, indices pcommon.Int32Slice) {
	for key, n := range keysOf(d, indices) {
		if n > 1 && key != "" {
			r.addf("an entry has %d attributes %s", n, key)
		}
	}
}

// keysOf returns how often attributes have which keys.
func keysOf(d pprofile.ProfilesDictionary, indices pcommon.Int32Slice) map[string]int {
	keys := make(map[string]int)
	for _, i := range indices.All() {
		keys[textOf(d, entry(d.AttributeTable(), i, pprofile.NewKeyValueAndUnit).KeyStrindex())]++
	}
	return keys
}

var fileID = regexp.MustCompile("^[0-9a-f]{32}$")

// mapping: a file ID is 128 bits in hex (Elastic's exporter); what a mapping says of its
// lines must be true of the frame; and its range must cover the frame, the call before it, or
// the byte behind it, as the OTel eBPF profiler subtracts 1.
func (r refused) mapping(f *Frame) {
	m := f.Mapping
	if m.FileID != "" && !fileID.MatchString(m.FileID) {
		r.addf("contract 4.2: file ID %q", m.FileID)
	}
	if m.Limit != 0 && (f.Address+1 < m.Start || f.Address > m.Limit) {
		r.addf("contract 4.1: %#x is not in its mapping %#x to %#x", f.Address, m.Start, m.Limit)
	}
	var named, files, numbers bool
	for _, l := range f.Lines {
		named, files, numbers = named || l.Name != "", files || l.File != "", numbers || l.Line != 0
	}
	for flag, is := range map[string]bool{"filenames": files, "line_numbers": numbers, "inline_frames": len(f.Lines) > 1} {
		if said, ok := m.Attributes["pprof.mapping.has_"+flag].(bool); ok && said != is {
			r.addf("contract 4.4: has_%s is %v of %#x", flag, said, f.Address) // not of the lines: it may have come untrue
		}
	}
	// It says of an image that it has symbols, of which there need not be one at the frame.
	if said, ok := m.Attributes["pprof.mapping.has_functions"].(bool); ok && named && !said {
		r.addf("contract 4.4: has_functions is false of %v", f.Lines)
	}
}
