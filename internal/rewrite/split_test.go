package rewrite

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

const ebpfScope = "go.opentelemetry.io/ebpf-profiler"

// isOther says of the resources of host "other" that they are foreign.
func isOther(r pcommon.Resource) bool {
	host, ok := r.Attributes().Get("host.name")
	return ok && host.Str() == "other"
}

var other = map[string]any{"host.name": "other"}

// ambiguous is c as a leaf, and b as a caller.
var ambiguous = Frame{Address: text + offC, Type: "kernel"}

func stackNames(samples []rewritetest.Sample) (names [][]string) {
	for _, s := range samples {
		var n []string
		for _, f := range s.Stack {
			n = append(n, nameOf(f))
		}
		names = append(names, n)
	}
	return names
}

func TestContract_2_4_LeafAndCaller(t *testing.T) {
	user := Frame{Address: 1, Type: "native"}
	m := rewritetest.NewMessage().Profile(nil, "scope").
		Sample(ambiguous, user).
		Sample(user, ambiguous).
		Sample(ambiguous, ambiguous, user).
		Sample(user, ambiguous).
		Sample(user)
	m.LastSample().TimestampsUnixNano().FromRaw([]uint64{1, 2})
	d := m.Profiles.Dictionary()
	locations, stacks := d.LocationTable().Len(), d.StackTable().Len()
	samples, counts := run(t, Options{}, m.Profiles)
	assert.Equal(t, [][]string{{"c", ""}, {"", "b"}, {"c", "b", ""}, {"", "b"}, {""}}, stackNames(samples))
	assert.Equal(t, locations+1, d.LocationTable().Len(), "one copy")
	assert.Equal(t, stacks, d.StackTable().Len(), "each stack has one kind of user, and is changed in place")
	assert.Equal(t, 2, counts[OutcomeResolved][symtab.OriginKernel])
}

func TestSplitWithOneSideUnresolved(t *testing.T) {
	end := Frame{Address: text + 0x40, Type: "kernel"} // behind a: its caller, or padding
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(end, end)
	samples, counts := run(t, Options{}, m.Profiles)
	assert.Equal(t, [][]string{{"", "a"}}, stackNames(samples))
	assert.Equal(t, vmlinux(), samples[0].Stack[0].Mapping)
	assert.Equal(t, 1, counts[OutcomeResolved][symtab.OriginKernel])
	assert.Equal(t, 1, counts[OutcomeUnresolved][symtab.OriginKernel])
}

func TestSplitJoinsWhatIsThere(t *testing.T) {
	// The frames that the split would make are in the message already, and so is
	// one of the stacks.
	asLeaf := named(Frame{Address: offC, Type: "kernel", Mapping: vmlinux()}, "c")
	asCaller := named(Frame{Address: offC, Type: "kernel", Mapping: vmlinux()}, "b")
	user := Frame{Address: 1, Type: "native"}
	m := rewritetest.NewMessage().Profile(nil, "scope").
		Sample(asLeaf, user).
		Sample(user, asCaller).
		Sample(ambiguous, user).
		Sample(user, ambiguous)
	d := m.Profiles.Dictionary()
	locations, stacks := d.LocationTable().Len(), d.StackTable().Len()
	samples, _ := run(t, Options{}, m.Profiles)
	assert.Equal(t, [][]string{{"c", ""}, {"", "b"}, {"c", ""}, {"", "b"}}, stackNames(samples))
	assert.Equal(t, locations, d.LocationTable().Len())
	assert.Equal(t, stacks, d.StackTable().Len())
	assert.Equal(t, samples[0], samples[2])
}

func TestSplitOfEqualLocations(t *testing.T) {
	// A producer that has the same location twice gets no third and fourth.
	user := Frame{Address: 1, Type: "native"}
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(ambiguous, user).Sample(user, ambiguous)
	d := m.Profiles.Dictionary()
	twin := d.LocationTable().AppendEmpty()
	d.LocationTable().At(int(m.Location(ambiguous))).CopyTo(twin)
	for _, position := range []int{0, 1} {
		s := d.StackTable().AppendEmpty()
		s.LocationIndices().FromRaw([]int32{m.Location(user), m.Location(user)})
		s.LocationIndices().SetAt(position, int32(d.LocationTable().Len()-1))
		m.Sample()
		m.LastSample().SetStackIndex(int32(d.StackTable().Len() - 1))
	}
	locations := d.LocationTable().Len()
	samples, _ := run(t, Options{}, m.Profiles)
	assert.Equal(t, [][]string{{"c", ""}, {"", "b"}, {"c", ""}, {"", "b"}}, stackNames(samples))
	assert.Equal(t, locations+1, d.LocationTable().Len())
}

func TestForeignResources(t *testing.T) {
	plain := Frame{Address: text + offA + 1, Type: "kernel"}
	user := Frame{Address: 1, Type: "native"}
	opts := Options{IsForeign: isOther}

	t.Run("all", func(t *testing.T) {
		m := rewritetest.NewMessage().Profile(other, "scope").Sample(plain, user).Sample(ambiguous, plain)
		before := marshal(t, m.Profiles)
		_, counts := run(t, opts, m.Profiles)
		assert.Equal(t, before, marshal(t, m.Profiles))
		assert.Equal(t, 2, counts[OutcomeForeign][symtab.OriginKernel])
	})
	t.Run("shared stacks", func(t *testing.T) {
		m := rewritetest.NewMessage()
		m.Profile(nil, "scope").Sample(plain, user).Sample(ambiguous, plain)
		m.Profile(other, "scope").Sample(plain, user).Sample(ambiguous, plain)
		samples, counts := run(t, opts, m.Profiles)
		assert.Equal(t, [][]string{{"a", ""}, {"c", "a"}, {"", ""}, {"", ""}}, stackNames(samples))
		assert.Equal(t, []Frame{plain, user}, samples[2].Stack)
		assert.Equal(t, []Frame{ambiguous, plain}, samples[3].Stack)
		assert.Equal(t, 2, counts[OutcomeForeign][symtab.OriginKernel])
		assert.Equal(t, 2, counts[OutcomeResolved][symtab.OriginKernel])
	})
	t.Run("own stacks", func(t *testing.T) {
		m := rewritetest.NewMessage()
		m.Profile(nil, "scope").Sample(plain, user)
		m.Profile(other, "scope").Sample(plain)
		stacks := m.Profiles.Dictionary().StackTable().Len()
		samples, _ := run(t, opts, m.Profiles)
		assert.Equal(t, [][]string{{"a", ""}, {""}}, stackNames(samples))
		assert.Equal(t, stacks, m.Profiles.Dictionary().StackTable().Len())
	})
}

func TestOneStackWithUsersOfEveryKind(t *testing.T) {
	// At the last byte of b: b for a leaf or caller, but c for a leaf that came
	// with 1 taken off.
	end := Frame{Address: text + offC - 1, Type: "kernel"}
	m := rewritetest.NewMessage()
	m.Profile(nil, "scope").Sample(end, end)
	m.Profile(nil, ebpfScope).Sample(end, end)
	m.Profile(other, "scope").Sample(end, end)
	samples, _ := run(t, Options{IsForeign: isOther}, m.Profiles)
	assert.Equal(t, [][]string{{"b", "b"}, {"c", "b"}, {"", ""}}, stackNames(samples))
}

// TestSplitJoinsNothingThatChangesYet has a second frame that becomes what the
// copy of the first would be before it is rewritten itself.
func TestSplitJoinsNothingThatChangesYet(t *testing.T) {
	end := Frame{Address: text + 0x40, Type: "kernel"} // padding behind a for a leaf
	relative := Frame{Address: 0x40, Type: "kernel", Mapping: vmlinux()}
	user := Frame{Address: 1, Type: "native"}
	m := rewritetest.NewMessage().Profile(nil, "scope").
		Sample(end, user).
		Sample(user, end).
		Sample(user, relative)
	samples, _ := run(t, Options{}, m.Profiles)
	assert.Equal(t, [][]string{{"", ""}, {"", "a"}, {"", "a"}}, stackNames(samples))
}

// TestLastAddress takes 1 off a relative address of 0, as a producer may: adding
// it again must not lead to the first symbol.
func TestLastAddress(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, ebpfScope).
		Sample(Frame{Address: ext4 + 0x110, Type: "kernel"}).
		Sample(Frame{Address: 1<<64 - 1, Type: "kernel"})
	samples, _ := run(t, Options{}, m.Profiles)
	assert.Equal(t, [][]string{{"ext4_write"}, {""}}, stackNames(samples))
}

// TestStackThatAnotherMovesTo has a stack that is what a user of another stack
// needs, and that would itself be changed for its own user.
func TestStackThatAnotherMovesTo(t *testing.T) {
	end := Frame{Address: text + offC - 1, Type: "kernel"}
	asOther := named(Frame{Address: offC - 1, Type: "kernel", Mapping: vmlinux()}, "b")
	user := Frame{Address: 1, Type: "native"}
	m := rewritetest.NewMessage()
	m.Profile(nil, "scope").Sample(end, user).Sample(asOther, user)
	m.Profile(nil, ebpfScope).Sample(end, user)
	samples, _ := run(t, Options{}, m.Profiles)
	assert.Equal(t, [][]string{{"b", ""}, {"b", ""}, {"c", ""}}, stackNames(samples))
}

func TestStackThatNoSampleHas(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "scope").Sample(Frame{Address: 1, Type: "native"})
	m.Location(ambiguous)
	run(t, Options{}, m.Profiles)
	d := m.Profiles.Dictionary()
	f := rewritetest.FrameAt(d, int32(d.LocationTable().Len()-1))
	assert.Equal(t, "c", nameOf(f), "looked up as a leaf")
}

// expected is what the contract says of a frame at a position of a stack, by an
// oracle that looks at one frame at a time.
func expected(s *symtab.Snapshot, f Frame, position int, resource map[string]any, scope string) Frame {
	if resource["host.name"] == "other" || f.Type != "kernel" || len(f.Lines) > 0 {
		return f
	}
	addr := f.Address
	if f.Mapping != nil {
		addr += text // the mappings of the model are the core kernel's
	}
	find := func(a uint64) (symtab.Symbol, bool) { return s.Lookup(a, symtab.Always) }
	at := addr
	var sym symtab.Symbol
	var ok bool
	switch {
	case position > 0:
		at = addr - 1
		if sym, ok = find(at); !ok {
			if first, found := find(addr); found && first.Start == addr {
				sym, ok = first, true
			}
		}
	case scope == ebpfScope:
		at = addr + 1
		sym, ok = find(at)
	default:
		sym, ok = find(at)
	}
	m := sym.Module
	if !ok {
		if m, _ = s.ModuleAt(at, symtab.Always); m == nil {
			return f
		}
	} else {
		f.Lines = []Line{{Name: sym.Name().Name, System: sym.Name().System}}
	}
	f.Mapping = vmlinux()
	if m.Name == "ext4" {
		f.Mapping = ext4Mapping()
	}
	if f.Address = 0; addr >= m.Base { // else it is the leaf of the eBPF profiler, at the first byte
		f.Address = addr - m.Base
	}
	return f
}

// TestModel rewrites random messages and holds every frame of every sample
// against the oracle.
func TestModel(t *testing.T) {
	s := testSnapshot(t)
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 7))
		frames := modelFrames(r)
		m := rewritetest.NewMessage()
		var want []rewritetest.Sample
		for range 1 + r.IntN(4) {
			var resource map[string]any
			if r.IntN(3) == 0 {
				resource = other
			}
			scope := "scope"
			if r.IntN(2) == 0 {
				scope = ebpfScope
			}
			m.Profile(resource, scope)
			for range r.IntN(8) {
				var stack, expect []Frame
				for position := range 1 + r.IntN(4) {
					f := frames[r.IntN(len(frames))]
					stack = append(stack, f)
					expect = append(expect, expected(s, f, position, resource, scope))
				}
				m.Sample(stack...)
				want = append(want, rewritetest.Sample{Stack: expect, Values: []int64{1}, Timestamps: nil})
			}
		}
		got, _ := run(t, Options{IsForeign: isOther}, m.Profiles)
		require.Len(t, got, len(want))
		for i := range want {
			require.Equal(t, fmt.Sprintf("%+v", derefed(want[i].Stack)), fmt.Sprintf("%+v", derefed(got[i].Stack)), "seed %d, sample %d", seed, i)
			require.Equal(t, want[i].Values, got[i].Values)
		}
	}
}

// TestModelOfNames is as TestModel, with all options, frames that have names and
// placeholders, several frames at one address, and modules side by side. It looks
// at names only.
func TestModelOfNames(t *testing.T) {
	s := adjacentSnapshot(t)
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 9))
		coin := func() bool { return r.IntN(2) == 0 }
		opts := Options{All: coin(), KeepAddresses: coin(), Label: coin(), IsForeign: isOther}
		frames := namedModelFrames(r)
		m := rewritetest.NewMessage()
		var want [][]string
		for range 1 + r.IntN(4) {
			var resource map[string]any
			if r.IntN(3) == 0 {
				resource = other
			}
			scope := "scope"
			if coin() {
				scope = ebpfScope
			}
			m.Profile(resource, scope)
			for range r.IntN(6) {
				var stack []Frame
				var names []string
				for position := range 1 + r.IntN(3) {
					f := frames[r.IntN(len(frames))]
					stack = append(stack, f)
					if resource != nil {
						names = append(names, nameOf(f))
					} else {
						names = append(names, expectedName(s, f, position, scope, opts))
					}
				}
				m.Sample(stack...)
				want = append(want, names)
			}
		}
		got, _ := runWith(t, opts, m.Profiles, s)
		require.Equal(t, want, stackNames(got), "seed %d: %+v of %v", seed, opts, derefed(frames))
	}
}

// adjacentSnapshot knows a kernel with two modules right behind it, the second
// with code below its base.
func adjacentSnapshot(t *testing.T) *symtab.Snapshot {
	t.Helper()
	const m1, m2 = text + textSize, text + textSize + 0x100
	core := testModule(t, symtab.ModuleInfo{
		Name: symtab.KernelName, BuildID: kernelID, Base: text, Start: text, End: m1,
	}, func(add func(uint64, string)) {
		add(offA, "a")
		add(0x40, "__pfx_b")
		add(offB, "b")
		add(offC, "c")
		add(0x100, "__entry_text_end")
		add(0x200, "d")
	})
	first := testModule(t, symtab.ModuleInfo{
		Name: "m1", Origin: symtab.OriginModule, BuildID: ext4ID, Base: m1, Start: m1, End: m2,
	}, func(add func(uint64, string)) {
		add(0, "m1f")
		add(0x80, "__pfx_x")
	})
	second := testModule(t, symtab.ModuleInfo{
		Name: "m2", Origin: symtab.OriginModule, Base: m2 + 0x10, Start: m2, End: m2 + 0x100,
	}, func(add func(uint64, string)) {
		add(0, "m2low")
		add(0x10, "m2f")
	})
	return symtab.NewSnapshot(
		symtab.NewTable([]*symtab.Module{core}), symtab.NewTable([]*symtab.Module{first, second}))
}

// namedModelFrames returns some frames around the places where roles differ in
// adjacentSnapshot, often several at one of them.
func namedModelFrames(r *rand.Rand) []Frame {
	offsets := []uint64{0, offA, 0x40, offB, offC, 0x100, 0x200, textSize, textSize + 0x80, textSize + 0x100, textSize + 0x110, textSize + 0x200}
	frames := []Frame{{Address: 1, Type: "native"}}
	offset := offsets[r.IntN(len(offsets))]
	for range 1 + r.IntN(4) {
		if r.IntN(2) == 0 {
			offset = offsets[r.IntN(len(offsets))] + r.Uint64N(3) - 1
		}
		f := Frame{Address: text + offset, Type: "kernel"}
		switch r.IntN(4) {
		case 0:
			f.Mapping = vmlinux()
			if offset < textSize {
				f.Address = offset
			}
		case 1:
			if textSize <= offset && offset < 2*textSize {
				f.Address = offset - textSize
				f.Mapping = &Mapping{File: "m1", Limit: 0x100, BuildID: ext4ID, FileID: buildid.FileID(ext4ID)}
			}
		}
		switch r.IntN(6) {
		case 0:
			f = named(f, []string{"a", "b", "c", "m1f", "another"}[r.IntN(5)])
		case 1:
			f.Lines = []Line{{Name: "UNKNOWN"}}
		}
		if k := r.IntN(8); k < 2 {
			f.Attributes = map[string]any{keyIsFolded: k == 1}
		}
		frames = append(frames, f)
	}
	return frames
}

// expectedName is the oracle of TestModelOfNames.
func expectedName(s *symtab.Snapshot, f Frame, position int, scope string, opts Options) string {
	has := nameOf(f)
	isNamed := has != "" && has != "UNKNOWN"
	if f.Type == "native" || isNamed && !opts.All {
		return has
	}
	addr, only := f.Address, (*symtab.Module)(nil)
	if !inKernelHalf(addr) {
		only, _, _ = s.ModuleByName(f.Mapping.File)
		addr += only.Base
	}
	find := func(a uint64) (symtab.Symbol, bool) {
		sym, ok := s.Lookup(a, symtab.Always)
		return sym, ok && (only == nil || sym.Module == only)
	}
	at := addr
	switch {
	case position > 0:
		at = addr - 1
	case scope == ebpfScope:
		at = addr + 1
	}
	sym, ok := find(at)
	if !ok && position > 0 {
		sym, ok = find(addr)
	}
	if ok {
		return sym.Name().Name
	}
	if m, found := s.ModuleAt(at, symtab.Always); found && opts.Label && !isNamed && (only == nil || m == only) {
		return label(m, addr)
	}
	return has
}

// modelFrames returns some frames around the places where roles differ.
func modelFrames(r *rand.Rand) []Frame {
	offsets := []uint64{0, offA, 0x40, offB, offC, 0x100, 0x200, offRust, offE, offLast, textSize}
	frames := []Frame{{Address: 1, Type: "native"}, named(Frame{Address: 2, Type: "kernel"}, "named")}
	for range 1 + r.IntN(6) {
		offset := offsets[r.IntN(len(offsets))] + r.Uint64N(3) - 1
		f := Frame{Address: text + offset, Type: "kernel"}
		switch r.IntN(4) {
		case 0:
			f.Address = ext4 + offset
		case 1:
			if offset < textSize-1 { // beyond, it is not the core's
				f.Address, f.Mapping = offset, vmlinux()
			}
		}
		frames = append(frames, f)
	}
	return frames
}

// derefed returns the frames and, in place of each mapping, what it points to.
func derefed(frames []Frame) (all []string) {
	for _, f := range frames {
		m := f.Mapping
		f.Mapping = nil
		all = append(all, fmt.Sprintf("%+v %+v", f, m))
	}
	return all
}
