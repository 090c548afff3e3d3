package rewrite

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// use says how a stack uses a frame.
type use uint8

// The bits of a use. Without useExact, a frame is a caller.
const (
	useExact      use = 1 << iota // the CPU was there (contract 2.3)
	useAfterThunk                 // it was entered from a thunk: exact if it is a symbol's first byte
	useAtPatch                    // its caller is at a function's patch site (contract 3.5)
	useEBPF                       // it was sent by the OTel eBPF profiler: one less (contract 2.2)
	numUses       = 1 << iota
)

// useForeign is that of another host's profile, whose frames are left alone.
const useForeign = use(numUses)

// useSet is a set of uses.
type useSet uint32

// user is the kind of profile that a sample belongs to.
type user uint8

const (
	userOther user = iota
	userEBPF
	userForeign
	numUsers = iota
)

// isEBPFProfiler reports whether a scope is that of the OTel eBPF profiler or of a fork of it
// (contract 2.2).
func isEBPFProfiler(scope string) bool {
	program, _ := baseName(scope)
	return strings.HasPrefix(scope, "go.opentelemetry.io/ebpf-profiler") || program == "ebpf-profiler" || scope == "parca-agent"
}

// readUsers finds out of which kind each profile is, in the order of eachProfile, and
// which kinds of samples have which stack. It reports whether the samples are valid
// (contract 1.4).
func (p *pass) readUsers() (valid bool) {
	foreign := make([]bool, 0, p.m.resources.Len())
	for _, rp := range p.m.resources.All() {
		foreign = append(foreign, p.opts.IsForeign != nil && p.opts.IsForeign(rp.Resource()))
	}
	p.users = p.users[:0]
	p.stackUsers = zeroed(p.stackUsers, max(1, p.m.stacks.Len()))
	stacks, attrs := uint(len(p.stackUsers)), uint(p.m.attrs.Len())
	valid = true
	p.m.eachProfile(func(resource int, scope string, profile pprofile.Profile) {
		u := userOther
		switch {
		case foreign[resource]:
			u = userForeign
		case isEBPFProfiler(scope):
			u = userEBPF
		}
		p.users = append(p.users, u)
		samples := profile.Samples()
		for i := range samples.Len() {
			s := samples.At(i)
			if stack := s.StackIndex(); uint(stack) < stacks && allIn(s.AttributeIndices(), attrs) {
				p.stackUsers[stack] |= 1 << u
			} else {
				valid = false
			}
		}
	})
	p.times.users = p.users
	return valid
}

// findUses notes how the stacks that samples have use the frames, and reports whether the
// stacks are valid (contract 1.4).
func (p *pass) findUses() (valid bool) {
	locations := uint(p.m.locations.Len())
	p.called = zeroed(p.called, int(locations))
	valid = true
	for i := range p.m.stacks.Len() {
		indices := p.m.stacks.At(i).LocationIndices()
		if p.stackUsers[i] == 0 {
			valid = valid && allIn(indices, locations)
			continue
		}
		for u := range user(numUsers) {
			if p.stackUsers[i]&(1<<u) != 0 {
				valid = p.walk(int32(i), indices, u) && valid
			}
		}
	}
	for i := range p.frames {
		if f := &p.frames[i]; p.called[f.loc] {
			f.uses |= 1 << 0
		}
	}
	return valid
}

// usedFrame is a frame in a stack, but for callers in the text of the core kernel that came
// absolute.
type usedFrame struct {
	stack    int32
	position int32
	frame    int32 // its position in the pass's frames
	user     user
	how      use
}

// walk notes how a stack, leaf first, uses the frames in it for one kind of samples. It
// reports false if the stack is not valid.
func (p *pass) walk(stack int32, indices pcommon.Int32Slice, u user) (valid bool) {
	before := uint64(0) // what was looked up for the frame that this one was entered from
	decides := false    // that may say that this one is no caller
	for i := range indices.Len() {
		loc := indices.At(i)
		if uint(loc) >= uint(len(p.plain)) {
			if loc != 0 {
				return false
			}
			continue // of a table that was left out
		}
		offset := p.plain[loc]
		if offset == 0 {
			before, decides = 0, false
			continue
		}
		if offset != notPlain && i > 0 && u == userOther && !decides { // nearly all
			p.called[loc] = true
			before = p.r.text.Start + uint64(offset) - 2
			if decides = p.r.mayDecide(before); decides {
				before = p.r.lookedAsCaller(before + 1)
			}
			continue
		}
		k := p.frameOf[loc] - 1
		f := &p.frames[k]
		how := useForeign
		if u != userForeign {
			how, before = p.use(f, i == 0, u, before)
			if f.form == formAbsolute && p.r.mayBeTrampoline(f.addr) && i+1 < indices.Len() && p.isPatchSite(indices.At(i+1), u) {
				how |= useAtPatch
			}
		}
		decides = p.r.mayDecide(before)
		f.uses |= 1 << how
		p.used = append(p.used, usedFrame{stack: stack, position: int32(i), frame: k, user: u, how: how})
	}
	return true
}

// use returns how a stack uses a frame, and the address in the core kernel that is
// looked up for it. before is that of the frame that it was entered from.
func (p *pass) use(f *frame, first bool, u user, before uint64) (how use, looked uint64) {
	ip := f.addr
	if u == userEBPF {
		how = useEBPF
		ip++
	} else if f.lookedUp {
		return 0, f.addr
	}
	switch {
	case first:
		return how | useExact, ip
	case before == 0:
	case p.r.isEntry(before):
		if !p.r.isEntry(ip) {
			return how | useExact, ip
		}
	case p.r.isThunk(before):
		how |= useAfterThunk
		if p.r.beginsSymbol(ip) {
			return how, ip
		}
	}
	if f.addr == 0 {
		return how, 0
	}
	if p.r.mayDecide(ip - 1) {
		return how, p.r.lookedAsCaller(ip)
	}
	return how, ip - 1
}

// isPatchSite reports whether a location, as a caller, is at a function's patch site.
func (p *pass) isPatchSite(loc int32, u user) bool {
	if uint(loc) >= uint(len(p.frameOf)) || p.frameOf[loc] == 0 {
		return false
	}
	f := &p.frames[p.frameOf[loc]-1]
	switch {
	case f.addr == 0:
		return false
	case u == userEBPF || f.lookedUp:
		return p.r.isPatchSite(f.addr+1, p.times.whole())
	case !f.patch:
		f.patch, f.atPatch = true, p.r.isPatchSite(f.addr, p.times.whole())
	}
	return f.atPatch
}
