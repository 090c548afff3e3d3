// SPDX-License-Identifier: Apache-2.0

package rewritetest

import (
	"fmt"
	"math"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// A Shape is a kind of message meant to cost much more than its size. New returns a message with
// about n entries and with frames at the given kernel addresses. The first two addresses must lie
// in different functions; the third must have another answer as a leaf than as a caller.
type Shape struct {
	Name string
	New  func(n int, addresses [3]uint64) pprofile.Profiles
}

// HostileShapes are the known shapes. Each has a table or a list of n entries to which n other
// entries refer.
var HostileShapes = []Shape{
	{"many locations at one address", func(n int, a [3]uint64) pprofile.Profiles {
		h := newHostile()
		for range n {
			h.sample(h.stack(h.location(a[0])))
		}
		return h.Profiles
	}},
	{"many locations whose role decides", func(n int, a [3]uint64) pprofile.Profiles {
		h := newHostile()
		for range n {
			loc := h.location(a[2])
			h.sample(h.stack(loc, loc))
		}
		return h.Profiles
	}},
	{"a long stack of such locations, for many samples", func(n int, a [3]uint64) pprofile.Profiles {
		h := newHostile()
		loc := h.location(a[2])
		long := h.stack()
		for range n {
			h.stacks().At(int(long)).LocationIndices().Append(loc)
			h.sample(long)
		}
		return h.Profiles
	}},
	{"many long stacks that differ in their leaves", func(n int, a [3]uint64) pprofile.Profiles {
		h := newHostile()
		loc := h.location(a[2])
		side := int32(math.Sqrt(float64(n)))
		for range side {
			locations := make([]int32, 0, side)
			for range side {
				locations = append(locations, loc)
			}
			h.sample(h.stack(append(locations, h.location(a[0]))...))
		}
		return h.Profiles
	}},
	{"instants of one stack", func(n int, a [3]uint64) pprofile.Profiles {
		h := newHostile()
		h.sample(h.stack(h.location(a[0]), h.location(a[2])))
		stamps := h.profile.Samples().At(0).TimestampsUnixNano()
		for i := range n {
			stamps.Append(uint64(i) << 40)
		}
		return h.Profiles
	}},
	{"entries that nothing uses", func(n int, _ [3]uint64) pprofile.Profiles {
		h := newHostile()
		d := h.Profiles.Dictionary()
		for range n {
			d.StringTable().Append("0x1")
			d.AttributeTable().AppendEmpty()
			d.MappingTable().AppendEmpty()
			d.FunctionTable().AppendEmpty()
			d.LocationTable().AppendEmpty()
			d.StackTable().AppendEmpty()
		}
		return h.Profiles
	}},
	{"equal attributes", func(n int, a [3]uint64) pprofile.Profiles {
		h := newHostile()
		for range n {
			h.attribute("profile.frame.type", "kernel")
			h.attribute("process.executable.build_id.gnu", "00")
		}
		h.sample(h.stack(h.location(a[0])))
		return h.Profiles
	}},
	{"attributes without a value, and a long string", func(n int, a [3]uint64) pprofile.Profiles {
		h := newHostile()
		h.str(strings.Repeat("x", n))
		key := h.str("process.executable.build_id.gnu")
		for i := range n {
			h.Profiles.Dictionary().AttributeTable().AppendEmpty().SetKeyStrindex(key)
			at := h.location(a[0])
			h.locations().At(int(at)).AttributeIndices().Append(int32(i + 1))
			h.sample(h.stack(at))
		}
		return h.Profiles
	}},
	{"one long attribute, and many keys", func(n int, a [3]uint64) pprofile.Profiles {
		h := newHostile()
		h.attribute("process.executable.build_id.gnu", strings.Repeat("0", n))
		for range n {
			at := h.location(a[0])
			h.locations().At(int(at)).AttributeIndices().Append(1)
			h.sample(h.stack(at))
		}
		return h.Profiles
	}},
	{"a mapping of many attributes, for many locations", func(n int, a [3]uint64) pprofile.Profiles {
		h := newHostile()
		h.attribute("x", "y")
		m := h.Profiles.Dictionary().MappingTable().AppendEmpty()
		for range n {
			m.AttributeIndices().Append(1)
		}
		h.manyOf(n, a[0], func(loc pprofile.Location) { loc.SetMappingIndex(1) })
		return h.Profiles
	}},
	{"mappings of one file", func(n int, a [3]uint64) pprofile.Profiles {
		return newHostile().manyMappings(n, a[1], "[kernel.kallsyms]")
	}},
	{"a long name, for many functions", func(n int, a [3]uint64) pprofile.Profiles {
		h := newHostile()
		name := h.str("0x" + strings.Repeat("f", n))
		h.manyOf(n, a[0], func(loc pprofile.Location) {
			f := h.Profiles.Dictionary().FunctionTable()
			loc.Lines().AppendEmpty().SetFunctionIndex(int32(f.Len()))
			f.AppendEmpty().SetNameStrindex(name)
		})
		return h.Profiles
	}},
	{"a long file name, for many mappings", func(n int, a [3]uint64) pprofile.Profiles {
		return newHostile().manyMappings(n, a[1], "["+strings.Repeat("x", n)+"]")
	}},
	{"locations of many lines", func(n int, a [3]uint64) pprofile.Profiles {
		h := newHostile()
		side := int(math.Sqrt(float64(n)))
		h.Profiles.Dictionary().FunctionTable().AppendEmpty()
		h.manyOf(side, a[0], func(loc pprofile.Location) {
			for range side {
				loc.Lines().AppendEmpty()
			}
		})
		return h.Profiles
	}},
	{"names of any bytes", func(n int, a [3]uint64) pprofile.Profiles {
		h := newHostile()
		i := 0
		h.manyOf(n, a[0], func(loc pprofile.Location) {
			i++
			f := h.Profiles.Dictionary().FunctionTable()
			loc.Lines().AppendEmpty().SetFunctionIndex(int32(f.Len()))
			f.AppendEmpty().SetNameStrindex(h.str(fmt.Sprintf("[\xff\x00%c%d", rune(i), i)))
		})
		return h.Profiles
	}},
	{"indices of 2^31 - 1", func(n int, a [3]uint64) pprofile.Profiles {
		h := newHostile()
		i := 0
		h.manyOf(n, a[0], func(loc pprofile.Location) {
			switch i++; i % 4 {
			case 0:
				loc.SetMappingIndex(math.MaxInt32)
			case 1:
				loc.AttributeIndices().Append(math.MaxInt32)
			case 2:
				loc.Lines().AppendEmpty().SetFunctionIndex(math.MaxInt32)
			case 3:
				h.sample(math.MaxInt32)
				h.sample(h.stack(math.MaxInt32, math.MinInt32))
			}
		})
		return h.Profiles
	}},
	{"named lines that differ in their columns", func(n int, a [3]uint64) pprofile.Profiles {
		h := newHostile()
		h.Profiles.Dictionary().FunctionTable().AppendEmpty().SetNameStrindex(h.str("named"))
		h.sample(h.stack(h.location(a[2]), h.location(a[2])))
		i := int64(0)
		h.manyOf(n, a[0], func(loc pprofile.Location) {
			i++
			l := loc.Lines().AppendEmpty()
			l.SetFunctionIndex(1)
			l.SetColumn(i)
		})
		return h.Profiles
	}},
	{"functions that differ in file and line", func(n int, a [3]uint64) pprofile.Profiles {
		h := newHostile()
		name := h.str("named")
		for i := range n {
			f := h.Profiles.Dictionary().FunctionTable().AppendEmpty()
			f.SetNameStrindex(name)
			f.SetFilenameStrindex(int32(i % 2))
			f.SetStartLine(int64(i) << 32)
		}
		h.sample(h.stack(h.location(a[0])))
		return h.Profiles
	}},
	{"the longest file name of a module, for many mappings", func(n int, a [3]uint64) pprofile.Profiles {
		return newHostile().manyMappings(n, a[1], strings.Repeat("-", 4093)+".ko")
	}},
	{"two long keys, taking turns", func(n int, a [3]uint64) pprofile.Profiles {
		h := newHostile()
		keys := [2]int32{h.str(strings.Repeat("x", n)), h.str(strings.Repeat("y", n))}
		for i := range n {
			h.Profiles.Dictionary().AttributeTable().AppendEmpty().SetKeyStrindex(keys[i%2])
		}
		h.sample(h.stack(h.location(a[0])))
		return h.Profiles
	}},
	{"many profiles of one long scope", func(n int, a [3]uint64) pprofile.Profiles {
		h := newHostile()
		stack := h.stack(h.location(a[0]))
		sp := h.Profiles.ResourceProfiles().At(0).ScopeProfiles().At(0)
		sp.Scope().SetName(strings.Repeat("x", n))
		for range n {
			h.profile = sp.Profiles().AppendEmpty()
			h.sample(stack)
		}
		return h.Profiles
	}},
	{"many profiles, of many resources", func(n int, a [3]uint64) pprofile.Profiles {
		h := newHostile()
		stack := h.stack(h.location(a[2]), h.location(a[2]))
		for range n {
			rp := h.Profiles.ResourceProfiles().AppendEmpty()
			rp.Resource().Attributes().PutStr("host.name", "other")
			h.profile = rp.ScopeProfiles().AppendEmpty().Profiles().AppendEmpty()
			h.sample(stack)
		}
		return h.Profiles
	}},
	{"one long host name, for many resources", func(n int, a [3]uint64) pprofile.Profiles {
		h := newHostile()
		h.sample(h.stack(h.location(a[0])))
		name := strings.Repeat("X", n)
		for range n {
			rp := h.Profiles.ResourceProfiles().AppendEmpty()
			rp.Resource().Attributes().PutStr("host.name", name)
			h.profile = rp.ScopeProfiles().AppendEmpty().Profiles().AppendEmpty()
		}
		return h.Profiles
	}},
}

// hostile builds a message without looking for equal entries.
type hostile struct{ *Message }

func newHostile() hostile {
	return hostile{NewMessage().Profile(nil, "")}
}

func (h hostile) stacks() pprofile.StackSlice { return h.Profiles.Dictionary().StackTable() }

func (h hostile) locations() pprofile.LocationSlice { return h.Profiles.Dictionary().LocationTable() }

func (h hostile) location(addr uint64) int32 {
	h.locations().AppendEmpty().SetAddress(addr)
	return int32(h.locations().Len() - 1)
}

func (h hostile) stack(locations ...int32) int32 {
	h.stacks().AppendEmpty().LocationIndices().FromRaw(locations)
	return int32(h.stacks().Len() - 1)
}

func (h hostile) sample(stack int32) {
	s := h.profile.Samples().AppendEmpty()
	s.SetStackIndex(stack)
	s.Values().Append(1)
}

func (h hostile) str(s string) int32 {
	table := h.Profiles.Dictionary().StringTable()
	table.Append(s)
	return int32(table.Len() - 1)
}

func (h hostile) attribute(key, value string) {
	a := h.Profiles.Dictionary().AttributeTable().AppendEmpty()
	a.SetKeyStrindex(h.str(key))
	pcommon.NewValueStr(value).MoveTo(a.Value())
}

// manyOf adds n locations, each in its own sample.
func (h hostile) manyOf(n int, addr uint64, change func(pprofile.Location)) {
	for range n {
		at := h.location(addr)
		change(h.locations().At(int(at)))
		h.sample(h.stack(at))
	}
}

// manyMappings adds n locations, each with its own mapping of one file.
func (h hostile) manyMappings(n int, addr uint64, file string) pprofile.Profiles {
	name, i := h.str(file), int32(0)
	h.manyOf(n, addr, func(loc pprofile.Location) {
		i++
		h.Profiles.Dictionary().MappingTable().AppendEmpty().SetFilenameStrindex(name)
		loc.SetMappingIndex(i)
	})
	return h.Profiles
}
