package symtab

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTooManyOwners: what is looked at is bounded, and nobody is named at random.
func TestTooManyOwners(t *testing.T) {
	r := NewFunctions(History{TTL: time.Hour, MaxEntries: 1 << 16})
	load := func(name string, from, to int64) {
		f := bpf(name, 0x1000, 64, from)
		r.Load(f)
		r.Unload(r.At(0x1000), to, Slack{})
	}
	at := 1000 * ms
	load("long", at, at+500*ms)
	at += 500 * ms
	const many = 1000
	for i := range int64(many) {
		load(fmt.Sprint("short", i), at+i*ms, at+i*ms+ms/2)
	}
	table := r.Table()
	name := func(at Interval) string {
		s, ok := table.Lookup(0x1000, at)
		if !ok {
			return ""
		}
		return s.Name().Name
	}
	assert.Equal(t, "short7", name(Instant(at+7*ms)), "an instant has few")
	assert.Equal(t, "long", name(Interval{From: at - 400*ms, To: at + 100*ms}), "one has more than half")
	assert.Empty(t, name(Interval{From: at, To: at + many*ms}), "each has had a thousandth")
}

// TestDeadFunctionsBehindAModule: what is past does not end a module, but behind many
// places of functions there is no module any more. Its symbols are not looked for there.
func TestDeadFunctionsBehindAModule(t *testing.T) {
	const start, dead, size = 0x10000, 5000, 0x100
	m := build(t, ModuleInfo{Name: "big", Origin: OriginModule, Base: start, Start: start, End: start + 0x200000, Valid: Since(0)},
		line{start, 't', "first"}, line{start + 8, 't', "last"})
	r := NewFunctions(History{TTL: time.Hour, MaxEntries: 1 << 16})
	last := m.lastStart()
	for i := range uint64(dead) {
		r.Load(bpf(fmt.Sprint("f", i), last+size+i*size, size/2, 1000*ms))
		r.Unload(r.At(last+size+i*size), 1001*ms, Slack{})
	}
	s := NewSnapshot(NewTable([]*Module{m}), r.Table())
	for addr, want := range map[uint64]string{
		start: "first", last: "last", last + size - 1: "last", last + 10*size: "last", last + 900*size: "last", last + 4900*size: "",
	} {
		got := ""
		if sym, ok := s.Lookup(addr, Instant(5000*ms)); ok {
			got = sym.Name().Name
		}
		assert.Equal(t, want, got, "%#x", addr-start)
	}
}

// TestForgottenIsAsUncertainAsBefore: of what is forgotten, too, it is not known better
// than before when it went.
func TestForgottenIsAsUncertainAsBefore(t *testing.T) {
	for _, entries := range []int{1000, 0} {
		r := NewFunctions(History{TTL: time.Hour, MaxEntries: entries})
		r.Load(bpf("one", 0x1000, 64, 10*ms))
		r.Unload(r.At(0x1000), 100*ms, NewSlack(0, time.Second))
		two := NewFunction(OriginBPF, "two", 0x1000, 64, Since(1100*ms))
		two.Slack = NewSlack(time.Second, 0)
		r.Load(two)
		r.Expire(1200 * ms)
		_, ok := r.Table().Lookup(0x1000, Instant(400*ms))
		require.False(t, ok, "one or two, with a history of %d", entries)
	}
}
