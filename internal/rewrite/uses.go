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

// callerUse is the use of a caller, by the kind of profile, unless what was entered from it
// makes it another.
var callerUse = [numUsers]use{userOther: 0, userEBPF: useEBPF, userForeign: useForeign}

// mark is what is noted of a location; the lowest are 1<<user, where a stack with such a user
// has it as a caller.
type mark uint8

const (
	markSelected mark = 1 << (numUsers + iota) // it is a candidate
	markSpecial                                // how it is used is not decided by its position alone, or it decides that of others
	markSplit                                  // it has several answers
	markShared                                 // a copy of another was equal to it
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

// keepStacks forgets the users of stacks without a location that has a mark. It reports
// whether some stack is left, and whether the stacks are valid (contract 1.4).
func (p *pass) keepStacks(m mark) (some, valid bool) {
	for i := range p.m.stacks.Len() {
		indices := p.m.stacks.At(i).LocationIndices()
		switch found, ok := p.hasMark(indices, m); {
		case !ok:
			return false, false
		case !found:
			p.stackUsers[i] = 0
		case p.stackUsers[i] != 0:
			some = true
		case !allIn(indices, uint(len(p.marks))):
			return false, false
		}
	}
	return some, true
}

// hasMark reports whether one of the locations has a mark, and whether those before it are
// in the table.
func (p *pass) hasMark(indices pcommon.Int32Slice, m mark) (found, valid bool) {
	for i := range indices.Len() {
		loc := indices.At(i)
		if uint(loc) >= uint(len(p.marks)) {
			return false, false
		}
		if p.marks[loc]&m != 0 {
			return true, true
		}
	}
	return false, true
}

// findUses notes how stacks use the frames, and reports whether the stacks are valid
// (contract 1.4).
func (p *pass) findUses() (valid bool) {
	valid = p.eachUse(func(_ usedFrame, f *frame, how use) { f.uses |= 1 << how })
	for i := range p.frames {
		f := &p.frames[i]
		marks := p.marks[f.loc]
		for u, how := range callerUse {
			if marks&(1<<u) != 0 {
				f.uses |= 1 << how
			}
		}
	}
	return valid
}

// usedFrame is a frame in a stack.
type usedFrame struct {
	stack, position, frame int32
	user                   user
}

// eachUse calls visit for each frame in a stack and how the stack uses it; callers whose
// location has no special mark are only marked. It reports false if a stack is not valid.
func (p *pass) eachUse(visit func(at usedFrame, f *frame, how use)) (valid bool) {
	for i := range p.m.stacks.Len() {
		for u := range user(numUsers) {
			if p.stackUsers[i]&(1<<u) != 0 && !p.walk(int32(i), u, visit) {
				return false
			}
		}
	}
	return true
}

// walk is eachUse for a stack, leaf first, and one kind of samples.
func (p *pass) walk(stack int32, u user, visit func(at usedFrame, f *frame, how use)) (valid bool) {
	indices := p.m.stacks.At(int(stack)).LocationIndices()
	before := uint64(0) // what was looked up for the frame that this one was entered from, if that decides
	for i := range indices.Len() {
		loc := indices.At(i)
		if uint(loc) >= uint(len(p.marks)) {
			return false
		}
		if i > 0 && before == 0 && p.marks[loc] < markSpecial { // nearly all
			p.marks[loc] |= 1 << u
			continue
		}
		k := p.frameOf[loc] - 1
		if k < 0 {
			before = 0
			continue
		}
		f := &p.frames[k]
		how := useForeign
		if u != userForeign {
			how, before = p.use(f, i == 0, u, before)
			if !p.r.decides(before) {
				before = 0
			}
			if f.shared && i+1 < indices.Len() && p.isPatchSite(indices.At(i+1), u) {
				how |= useAtPatch
			}
		}
		visit(usedFrame{stack: stack, position: int32(i), frame: k, user: u}, f, how)
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
	if p.r.decidesNear(ip) {
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
	if f.patch && u != userEBPF {
		return f.atPatch
	}
	ip, during := f.addr, p.times.whole()
	if f.form == formNamed {
		if image, _ := p.r.snapshot.Named(p.m.maps.at(&p.m, f.mapping).module, during); image != nil {
			ip = image.Base + f.sent
		}
	}
	if u == userEBPF || f.lookedUp {
		ip++
	}
	is := p.r.isPatchSite(ip, during)
	if u != userEBPF {
		f.patch, f.atPatch = true, is
	}
	return is
}
