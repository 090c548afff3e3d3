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

// refused has the reasons why backends refuse a message or lose a part of it. The texts name only
// what matters to the backend, so that the reasons before and after a rewrite can be compared.
type refused map[string]bool

func (r refused) addf(format string, args ...any) { r[fmt.Sprintf(format, args...)] = true }

func (r refused) all() iter.Seq[string] { return maps.Keys(r) }

// without returns the reasons that are not in other.
func (r refused) without(other refused) refused {
	rest := maps.Clone(r)
	maps.DeleteFunc(rest, func(text string, _ bool) bool { return other[text] })
	return rest
}

// refusals returns why backends refuse a message, because of its samples or its kernel frames. If
// all is set, it considers all frames.
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

// profile adds the reasons of Pyroscope. It accepts only samples with as many values as the profile
// has types, which is 1, and refuses the whole request if the profile has a period. If a sample has
// no values, Pyroscope counts its timestamps; it adds up the values of off_cpu.
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

// keysOf returns how often each key occurs among attributes.
func keysOf(d pprofile.ProfilesDictionary, indices pcommon.Int32Slice) map[string]int {
	keys := make(map[string]int)
	for _, i := range indices.All() {
		keys[textOf(d, entry(d.AttributeTable(), i, pprofile.NewKeyValueAndUnit).KeyStrindex())]++
	}
	return keys
}

var fileID = regexp.MustCompile("^[0-9a-f]{32}$")

// mapping adds the reasons that lie in a frame's mapping. A file ID must be 128 bits in hex
// (Elastic's exporter). What a mapping says about its lines must be true of the frame. Its range
// must cover the frame, the call before it, or the byte after it, because the OTel eBPF profiler
// subtracts 1.
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
			r.addf("contract 4.4: has_%s is %v of %#x", flag, said, f.Address) // no lines: the flag may have arrived untrue
		}
	}
	// The flag says that an image has symbols, but the frame itself may have none.
	if said, ok := m.Attributes["pprof.mapping.has_functions"].(bool); ok && named && !said {
		r.addf("contract 4.4: has_functions is false of %v", f.Lines)
	}
}
