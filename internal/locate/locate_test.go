// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// A fakeKernel is a kernel's pack, loaded at a place.
type fakeKernel struct {
	*pack.Pack
	place   uint64
	symbols []pack.Symbol
}

const (
	textEnd = 8 << 20
	gapEnd  = 9 << 20
	codeEnd = 10 << 20
)

// newKernel returns a kernel with the symbols, in the order of their addresses.
func newKernel(t testing.TB, arch string, place uint64, symbols ...pack.Symbol) *fakeKernel {
	t.Helper()
	w := pack.NewWriter(pack.Info{
		BuildID: "0123456789abcdef", Name: pack.KernelName, Arch: arch,
		Extent: pack.Range{End: codeEnd}, Gap: pack.Range{Start: textEnd, End: gapEnd},
	})
	for _, s := range symbols {
		w.Symbol(s)
	}
	content, err := w.Bytes()
	require.NoError(t, err)
	p, err := pack.Read(bytes.NewReader(content), int64(len(content)))
	require.NoError(t, err)
	return &fakeKernel{p, place, symbols}
}

func symbol(name string, start, end uint32) pack.Symbol {
	return pack.Symbol{Name: name, Range: pack.Range{Start: start, End: end}}
}

// wait returns a wait in functions, leaf first, each of which has called the next one after some bytes. Those of the
// scheduler, which the kernel does not print, come first.
func (k *fakeKernel) wait(scheduler int, after uint32, functions ...string) (w Wait) {
	for i, name := range functions {
		at := slices.IndexFunc(k.symbols, func(s pack.Symbol) bool { return s.Name == name })
		s := k.symbols[at]
		w.Addresses = append(w.Addresses, k.place+uint64(s.Range.Start+after))
		if i == scheduler {
			w.Wchan = name
		}
		if i >= scheduler {
			w.Frames = append(w.Frames, Frame{name, uint64(after), uint64(s.Range.End - s.Range.Start)})
		}
	}
	return w
}

const (
	amd64Place = 0xffffffff9a200000
	arm64Place = 0xffff80008a3d0000
)

// small is a kernel in which a, b, c and d wait. The two functions same differ in length.
func small(t testing.TB) *fakeKernel {
	return newKernel(t, "amd64", amd64Place,
		symbol("schedule", 0x1000, 0x1100), symbol("a", 0x2000, 0x2100), symbol("b", 0x3000, 0x3080), symbol("c", 0x5000, 0x5800),
		symbol("d.llvm.123", 0x6000, 0x6100), symbol("same", 0x7000, 0x7010), symbol("same", 0x8000, 0x8020),
		symbol("syscall", 0x9000, 0x9040), symbol("x", 3<<20, 3<<20+0x10), symbol("y", 4<<20, 4<<20+0x10), symbol("z", 5<<20, 5<<20+0x10))
}

// withWchan returns waits without their frames.
func withWchan(waits ...Wait) []Wait { return silenced(waits, "stack") }

// withStack returns waits without what wchan says.
func withStack(waits ...Wait) []Wait { return silenced(waits, "wchan") }

// silenced returns waits without what one of the kernel's files says.
func silenced(waits []Wait, file string) (silenced []Wait) {
	for _, w := range waits {
		if file == "wchan" {
			w.Wchan = ""
		} else {
			w.Frames = nil
		}
		silenced = append(silenced, w)
	}
	return silenced
}

func TestContract_10_5_Place(t *testing.T) {
	k := small(t)
	a, b, c := k.wait(1, 0x10, "schedule", "a", "syscall"), k.wait(1, 0x20, "schedule", "b", "syscall"), k.wait(1, 0x7f, "schedule", "c", "syscall")
	d := k.wait(1, 0x30, "schedule", "d.llvm.123", "syscall")
	for _, tt := range []struct {
		name  string
		waits []Wait
		err   error
	}{
		{"no wait", nil, ErrUnseen},
		{"wchan and stack", []Wait{a, b, c}, nil},
		{"wchan", withWchan(a, b, c), nil},
		{"stack", withStack(a, b), nil},
		{"stack of one wait", withStack(k.wait(1, 4, "schedule", "a", "b", "syscall")), nil},
		{"neither", withStack(withWchan(a, b, c)...), ErrSilent},
		{"three waits in two functions", withWchan(a, b, b), ErrFew},
		{"two functions of stacks", withStack(a, a), ErrFew},
		{"another wait says nothing", append(withWchan(a, b, c), withWchan(withStack(a)...)...), nil},
		{"a name that no symbol has", append(withWchan(a, b, c), Wait{Addresses: a.Addresses, Wchan: "unknown"}), nil},
		{"and two others", append(withWchan(a, b), Wait{Addresses: a.Addresses, Wchan: "unknown"}), ErrFew},
		{"whole name", withWchan(a, b, d), nil},
		{"name that was cut", withWchan(a, b, cut(d)), nil},
		{"stack with a name that was cut", withStack(a, cut(d)), nil},
		{"either function of a name", withWchan(a, b, same(k, 0x7000), same(k, 0x8000)), nil},
		{"length of one of two functions", withStack(a, frameOf(same(k, 0x8000), 0x20)), nil},
		{"length of the other", withStack(a, frameOf(same(k, 0x8000), 0x10)), ErrContradiction},
		{"no function of that length", withStack(a, b, frameOf(same(k, 0x8000), 0x40)), ErrContradiction},
		{"wchan of another wait", withWchan(a, b, Wait{Addresses: a.Addresses, Wchan: "c"}), ErrContradiction},
		{"the byte after a function", withWchan(a, b, Wait{Addresses: []uint64{k.place + 0x5800}, Wchan: "c"}), ErrContradiction},
		{"the last byte of a function", withWchan(a, b, Wait{Addresses: []uint64{k.place + 0x57ff}, Wchan: "c"}), nil},
		{"the first byte of a function", withWchan(a, b, Wait{Addresses: []uint64{k.place + 0x5000}, Wchan: "c"}), nil},
		{"the byte before a function", withWchan(a, b, Wait{Addresses: []uint64{k.place + 0x4fff}, Wchan: "c"}), ErrContradiction},
		{"code of a module", append(withWchan(a, b, c), Wait{Addresses: []uint64{k.place + codeEnd}}), ErrContradiction},
		{"code below", append(withWchan(a, b, c), Wait{Addresses: []uint64{k.place - 1}}), ErrContradiction},
		{"the last byte of code", append(withWchan(a, b, c), Wait{Addresses: []uint64{k.place + codeEnd - 1}}), nil},
		{"data", append(withWchan(a, b, c), Wait{Addresses: []uint64{k.place + textEnd}}), ErrContradiction},
		{"more frames than addresses", withStack(a, Wait{Addresses: b.Addresses[1:2], Frames: b.Frames}), ErrContradiction},
		{"another offset", withStack(a, changed(b, Frame{"b", 0x21, 0x80})), ErrContradiction},
		{"another function", withStack(a, changed(b, Frame{"c", 0x20, 0x800})), ErrContradiction},
		{"a module's function", withStack(a, b, changed(c, Frame{})), nil},
		{"places 2 MiB apart", withWchan(
			Wait{Addresses: []uint64{k.place + 3<<20, k.place + 3<<20 - 2<<20}, Wchan: "x"},
			Wait{Addresses: []uint64{k.place + 4<<20, k.place + 4<<20 - 2<<20}, Wchan: "y"},
			Wait{Addresses: []uint64{k.place + 5<<20, k.place + 5<<20 - 2<<20}, Wchan: "z"},
		), ErrSeveral},
		{"not 2 MiB apart", shifted(withStack(a, b, c), 0x1000), ErrContradiction},
	} {
		place, err := Place(k.Pack, tt.waits)
		require.ErrorIs(t, err, tt.err, tt.name)
		if tt.err == nil {
			assert.Equal(t, k.place, place, tt.name)
		}
	}
}

// cut returns a wait with names as kernels before 6.11 print them that were built by clang with LTO.
func cut(w Wait) Wait {
	w.Frames = slices.Clone(w.Frames)
	w.Wchan, w.Frames[0].Function = "d", "d"
	return w
}

// same returns a wait in one of the functions same.
func same(k *fakeKernel, start uint64) Wait {
	return Wait{Addresses: []uint64{k.place + start + 8}, Wchan: "same"}
}

// frameOf returns a wait with a frame of a length.
func frameOf(w Wait, length uint64) Wait {
	w.Frames = []Frame{{w.Wchan, 8, length}}
	return w
}

// changed returns a wait with another first frame.
func changed(w Wait, first Frame) Wait {
	w.Frames = slices.Clone(w.Frames)
	w.Frames[0] = first
	return w
}

// shifted returns waits in a kernel that is loaded some bytes higher.
func shifted(waits []Wait, by uint64) (all []Wait) {
	for _, w := range waits {
		w.Addresses = slices.Clone(w.Addresses)
		for i := range w.Addresses {
			w.Addresses[i] += by
		}
		all = append(all, w)
	}
	return all
}

func TestContract_10_5_StepsOfArchitectures(t *testing.T) {
	for arch, want := range map[string]error{"amd64": ErrContradiction, "arm64": nil, "riscv64": ErrArch} {
		k := newKernel(t, arch, arm64Place, symbol("a", 0x2000, 0x2100), symbol("b", 0x3000, 0x3080), symbol("c", 0x5000, 0x5800))
		place, err := Place(k.Pack, []Wait{k.wait(0, 4, "a", "b", "c")})
		require.ErrorIs(t, err, want, arch)
		if want == nil {
			assert.Equal(t, k.place, place)
		}
	}
}

// randomKernel returns a kernel with hundreds of functions, and waits in it.
func randomKernel(t testing.TB, r *rand.Rand) (k *fakeKernel, waits []Wait) {
	t.Helper()
	arch, step, lowest := "amd64", uint64(2<<20), uint64(0xffffffff81000000)
	if r.IntN(2) == 0 {
		arch, step, lowest = "arm64", 64<<10, 0xffff800080000000
	}
	var symbols []pack.Symbol
	for at := uint32(r.IntN(0x1000)); ; {
		size := uint32(16 + r.IntN(64)*r.IntN(64))
		if at+size >= textEnd {
			break
		}
		symbols = append(symbols, symbol(fmt.Sprintf("f%d", r.IntN(2000)), at, at+size))
		at += size + uint32(r.IntN(0x10000))
	}
	k = newKernel(t, arch, lowest+step*r.Uint64N(400), symbols...)
	for range 3 + r.IntN(4) {
		var w Wait
		scheduler := r.IntN(3)
		for i := range scheduler + 1 + r.IntN(6) {
			s := symbols[r.IntN(len(symbols))]
			offset := 1 + r.Uint64N(uint64(s.Range.End-s.Range.Start)-1)
			w.Addresses = append(w.Addresses, k.place+uint64(s.Range.Start)+offset)
			if i == scheduler {
				w.Wchan = s.Name
			}
			if i >= scheduler {
				w.Frames = append(w.Frames, Frame{s.Name, offset, uint64(s.Range.End - s.Range.Start)})
			}
		}
		waits = append(waits, w)
	}
	switch r.IntN(3) {
	case 0:
		return k, withWchan(waits...)
	case 1:
		return k, withStack(waits...)
	}
	return k, waits
}

// TestContract_10_5_EverySubsetLeavesThePlaceOrNone verifies that true waits, however few, never lead to another place, and
// that many lead to the place.
func TestContract_10_5_EverySubsetLeavesThePlaceOrNone(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		k, waits := randomKernel(t, r)
		for subset := range 1 << len(waits) {
			var some []Wait
			for i, w := range waits {
				if subset>>i&1 != 0 {
					some = append(some, w)
				}
			}
			place, err := Place(k.Pack, some)
			if err == nil {
				require.Equal(t, k.place, place, "seed %d, subset %b", seed, subset)
			} else {
				require.NotErrorIs(t, err, ErrContradiction, "seed %d, subset %b", seed, subset)
			}
			if _, functions := findClues(k.Pack, some); functions >= minFunctions && len(some) == len(waits) {
				require.NoError(t, err, "seed %d", seed)
			}
		}
	}
}

// lies make a wait false, as if the rule that pairs addresses with names had failed, or memory.
var lies = map[string]func(k *fakeKernel, r *rand.Rand, w, next *Wait){
	"wchan of the next wait": func(_ *fakeKernel, _ *rand.Rand, w, next *Wait) { w.Wchan, next.Wchan = next.Wchan, w.Wchan },
	"stack of the next wait": func(_ *fakeKernel, _ *rand.Rand, w, next *Wait) { w.Frames, next.Frames = next.Frames, w.Frames },
	"all of the next wait": func(_ *fakeKernel, _ *rand.Rand, w, next *Wait) {
		w.Addresses, next.Addresses = next.Addresses, w.Addresses
	},
	"an address exchanged": func(k *fakeKernel, r *rand.Rand, w, _ *Wait) {
		if len(w.Addresses) > 0 {
			w.Addresses[r.IntN(len(w.Addresses))] = k.place + r.Uint64N(codeEnd)
		}
	},
	"an address lost": func(_ *fakeKernel, r *rand.Rand, w, _ *Wait) {
		if len(w.Addresses) > 0 {
			at := r.IntN(len(w.Addresses))
			w.Addresses = slices.Delete(w.Addresses, at, at+1)
		}
	},
	"an address of a module": func(k *fakeKernel, r *rand.Rand, w, _ *Wait) {
		if len(w.Addresses) > 0 {
			w.Addresses[r.IntN(len(w.Addresses))] = k.place + 1<<30 + r.Uint64N(1<<20)
		}
	},
	"a frame exchanged": func(k *fakeKernel, r *rand.Rand, w, _ *Wait) {
		if len(w.Frames) > 0 {
			s := k.symbols[r.IntN(len(k.symbols))]
			w.Frames[r.IntN(len(w.Frames))] = Frame{s.Name, r.Uint64N(uint64(s.Range.End - s.Range.Start)), uint64(s.Range.End - s.Range.Start)}
		}
	},
	"a frame lost": func(_ *fakeKernel, r *rand.Rand, w, _ *Wait) {
		if len(w.Frames) > 0 {
			at := r.IntN(len(w.Frames))
			w.Frames = slices.Delete(w.Frames, at, at+1)
		}
	},
	"another offset": func(_ *fakeKernel, r *rand.Rand, w, _ *Wait) {
		if len(w.Frames) > 0 {
			w.Frames[r.IntN(len(w.Frames))].Offset ^= 1 << r.IntN(24)
		}
	},
	"another length": func(_ *fakeKernel, r *rand.Rand, w, _ *Wait) {
		if len(w.Frames) > 0 {
			w.Frames[r.IntN(len(w.Frames))].Length ^= 1 << r.IntN(12)
		}
	},
}

// TestContract_10_5_LiesLeaveThePlaceOrNone verifies that waits never lead to another place, even if some are false.
func TestContract_10_5_LiesLeaveThePlaceOrNone(t *testing.T) {
	for name, lie := range lies {
		noticed := 0
		for seed := range uint64(300) {
			r := rand.New(rand.NewPCG(seed, 1))
			k, waits := randomKernel(t, r)
			for range 1 + r.IntN(2) {
				i := r.IntN(len(waits))
				lie(k, r, &waits[i], &waits[(i+1)%len(waits)])
			}
			place, err := Place(k.Pack, waits)
			if err != nil {
				noticed++
				continue
			}
			require.Equal(t, k.place, place, "%s, seed %d", name, seed)
		}
		assert.NotZero(t, noticed, name)
	}
}

// TestContract_10_5_OtherBuildsHaveNoPlace verifies that the waits of a kernel lead to no place in the pack of another.
func TestContract_10_5_OtherBuildsHaveNoPlace(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		_, waits := randomKernel(t, r)
		other, _ := randomKernel(t, r)
		_, err := Place(other.Pack, waits)
		require.Error(t, err, "seed %d", seed)
	}
}

func TestParseStack(t *testing.T) {
	text := "[<0>] hrtimer_nanosleep+0x74/0xf0\n[<0>] d.llvm.123+0x0/0x10\n[<0>] nfs_wait+0x1/0x2 [nfs]\n" +
		"[<0>] 0xffffffffc0100000\n[<0>] no_length+0x1\n[<0>] +x+0x1/0xg\nold+0x1/0x2\n[<0>] last+0x1/0x20"
	assert.Equal(t, []Frame{
		{"hrtimer_nanosleep", 0x74, 0xf0}, {"d.llvm.123", 0, 0x10}, {}, {}, {}, {}, {}, {"last", 1, 0x20},
	}, parseStack(text))
	assert.Empty(t, parseStack(""))
	assert.Empty(t, parseWchan("0"))
	assert.Equal(t, "do_epoll_wait", parseWchan("do_epoll_wait"))
}

func FuzzParseStack(f *testing.F) {
	f.Add("[<0>] hrtimer_nanosleep+0x74/0xf0\n[<0>] nfs_wait+0x1/0x2 [nfs]\n")
	f.Fuzz(func(t *testing.T, text string) {
		frames := parseStack(text)
		require.LessOrEqual(t, len(frames), 1+bytes.Count([]byte(text), []byte("\n")))
		for _, frame := range frames {
			if frame.Function == "" {
				require.Equal(t, Frame{}, frame)
			}
		}
	})
}
