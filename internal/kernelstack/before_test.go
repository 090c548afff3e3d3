// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

var hung = []Function{{"pipe_read", "vmlinux"}, {"do_it", "nfs"}, {"ksys_read", "vmlinux"}}

// TestBlockedBefore has thread 7 read blocked at 150, while recording began at 50. It has waited since then unless a record says
// otherwise.
func TestBlockedBefore(t *testing.T) {
	for _, c := range []struct {
		name    string
		batches []perfring.Batch
		want    []sentWait
		lost    int
	}{
		{"no record", []perfring.Batch{sure()}, []sentWait{{7, 450, 499, "voluntary"}}, 0},
		{"it runs again", []perfring.Batch{sure(runs(0, 7, 200))}, []sentWait{{7, 150, 200, "voluntary"}}, 0},
		{
			"and waits again", []perfring.Batch{sure(runs(0, 7, 200), blocks(0, 7, 210))},
			[]sentWait{{7, 150, 200, "voluntary"}, {7, 290, 499, "voluntary"}}, 0,
		},
		{"it had run again when it was read", []perfring.Batch{sure(runs(0, 7, 150), blocks(0, 7, 200))}, []sentWait{{7, 300, 499, "voluntary"}}, 0},
		{"it had left when it was read", []perfring.Batch{sure(blocks(0, 7, 100))}, []sentWait{{7, 400, 499, "voluntary"}}, 0},
		{"it was made when it was read", []perfring.Batch{sure(about(perfring.TypeFork, 100))}, nil, 0},
		{"another thread gets its number", []perfring.Batch{sure(about(perfring.TypeFork, 200))}, nil, 0},
		{"records of the time before may follow", []perfring.Batch{{Certain: 150, Looked: 150}}, nil, 0},
		{
			"and do", []perfring.Batch{{Certain: 150, Looked: 150}, sure(runs(0, 7, 150), blocks(0, 7, 160), runs(0, 7, 180))},
			[]sentWait{{7, 20, 180, "voluntary"}}, 0,
		},
		{"records are lost before it is decided", []perfring.Batch{{Blind: []perfring.Interval{{From: 60, To: 70}}, Certain: 150, Looked: 150}, sure()}, nil, 1},
		{"records are lost later", []perfring.Batch{sure(), {Blind: []perfring.Interval{{From: 160, To: 170}}, Certain: 300, Looked: 300}}, nil, 1},
		{
			"records were lost before recording began", []perfring.Batch{{Blind: []perfring.Interval{{From: 10, To: 50}}, Certain: 300, Looked: 300}},
			[]sentWait{{7, 450, 499, "voluntary"}}, 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, sent := waitSession(t)
			w := s.sampler.(*waiting)
			read := wait{stack: s.out.form.functions.numbersOf(hung), pid: 1, tid: 7, before: true, from: 50, reported: 50}
			w.waits.expect(blocked{map[uint32]wait{7: read}, 50, 150})
			for _, b := range c.batches {
				addAll(t, s, b)
			}
			lost := s.out.counts.Unknown.All()
			s.sampler.endInterval(t.Context(), &perfring.Batch{Certain: 500, Looked: 500})
			s.out.send(t.Context(), time.Now())
			assert.Equal(t, c.want, waitsIn(t, s, *sent))
			assert.Equal(t, c.lost, lost)
		})
	}
}

// TestMessageOfBlockedBefore verifies that samples of such waits have names and the attribute, and that others have not.
func TestMessageOfBlockedBefore(t *testing.T) {
	s, sent := waitSession(t)
	w := s.sampler.(*waiting)
	calls := 0
	w.before = func() []Blocked {
		calls++
		return []Blocked{{PID: 1, TID: 7, CPU: 3, Stack: hung}, {PID: 1, TID: 5, CPU: 3, Stack: hung[1:]}, {PID: 1, TID: 4}}
	}
	s.sampler.begin(50)
	assert.Equal(t, 1, calls)
	at := perfring.Monotonic.Now()
	now := at + 100
	addAll(t, s, perfring.Batch{Records: blocks(0, 8, at), Certain: now, Looked: now})
	s.sampler.endInterval(t.Context(), &perfring.Batch{Certain: now, Looked: now})
	s.out.send(t.Context(), time.Now())
	pd := (*sent)[0].Profiles[0]
	checkSent(t, pd)
	d := pd.Dictionary()
	str := func(i int32) string { return d.StringTable().At(int(i)) }
	samples := pd.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).Samples()
	require.Equal(t, 3, samples.Len(), "one has no stack")
	var stacks [][]Function
	before := 0
	for _, sample := range samples.All() {
		var stack []Function
		for _, i := range d.StackTable().At(int(sample.StackIndex())).LocationIndices().All() {
			location := d.LocationTable().At(int(i))
			if location.Lines().Len() == 0 {
				assert.NotZero(t, location.Address())
				continue
			}
			assert.Zero(t, location.Address())
			stack = append(stack, Function{
				str(d.FunctionTable().At(int(location.Lines().At(0).FunctionIndex())).NameStrindex()),
				str(d.MappingTable().At(int(location.MappingIndex())).FilenameStrindex()),
			})
		}
		stacks = append(stacks, stack)
		for _, i := range sample.AttributeIndices().All() {
			if str(d.AttributeTable().At(int(i)).KeyStrindex()) == KeyBefore {
				before++
			}
		}
	}
	assert.Equal(t, [][]Function{hung[1:], hung, nil}, stacks, "by thread")
	assert.Equal(t, 2, before)
	assert.Equal(t, 1+2, d.MappingTable().Len(), "each file has one")
}

// TestBlockedBeyondTheMaximum verifies that waits which are not kept, because there are too many, are counted.
func TestBlockedBeyondTheMaximum(t *testing.T) {
	s, _ := waitSession(t)
	all := make(map[uint32]wait)
	for tid := range uint32(maxThreads + 5) {
		all[tid+1] = wait{stack: []uint64{firstFunction}, tid: tid + 1, before: true, from: 50, reported: 50}
	}
	s.sampler.(*waiting).waits.expect(blocked{all, 50, 150})
	addAll(t, s, sure())
	assert.Equal(t, 5, s.out.counts.Unknown.Threads)
}

// TestNoContainerOfSums verifies that a sum of waits of an unknown container counts once, as the sample that it is.
func TestNoContainerOfSums(t *testing.T) {
	s, sent := waitSession(t)
	s.sampler.(*waiting).core = symtab.Range{Start: 0, End: 1<<64 - 1}
	s.out.of.Options.Containers = true
	addAll(t, s, sure(blocks(0, 7, 100), runs(0, 7, 150), blocks(0, 7, 200), runs(0, 7, 250)))
	s.out.send(t.Context(), time.Now())
	m := (*sent)[0]
	assert.Equal(t, []int{1, 2, 1}, []int{m.Samples, m.Waits, m.NoContainer})
}
