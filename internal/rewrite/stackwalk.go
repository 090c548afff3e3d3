// SPDX-License-Identifier: Apache-2.0

package rewrite

import "go.opentelemetry.io/collector/pdata/pprofile"

// stackWalk goes through the stacks that samples have, and finds how they use the
// candidates.
type stackWalk struct {
	candidates
	users      []user  // by profile, in the order of eachProfile
	stackUsers []uint8 // by stack: a bit for each kind of user that has it
}

// readUsers finds out of which kind each profile is, in the order of eachProfile, and
// which kinds of samples have which stack. It reports whether the samples are valid
// (contract 1.4).
func (w *stackWalk) readUsers() (valid bool) {
	foreign := make([]bool, 0, w.m.resources.Len())
	for _, rp := range w.m.resources.All() {
		foreign = append(foreign, w.opts.IsForeign != nil && !w.opts.Gateway && w.opts.IsForeign(rp.Resource()))
	}
	w.users = w.users[:0]
	w.stackUsers = zeroed(w.stackUsers, max(1, w.m.stacks.Len()))
	stacks, attrs := uint(len(w.stackUsers)), uint(w.m.attrs.Len())
	valid = true
	w.m.eachProfile(func(resource int, scope string, profile pprofile.Profile) {
		u := userOther
		switch {
		case foreign[resource]:
			u = userForeign
		case isEBPFProfiler(scope):
			u = userEBPF
		}
		w.users = append(w.users, u)
		samples := profile.Samples()
		for i := range samples.Len() {
			s := samples.At(i)
			if stack := s.StackIndex(); uint(stack) < stacks && allIn(s.AttributeIndices(), attrs) {
				w.stackUsers[stack] |= 1 << u
			} else {
				valid = false
			}
		}
	})
	w.times.users = w.users
	return valid
}

// findUses notes how stacks use the frames, and forgets the users of stacks without a candidate.
// It reports whether a sample has a candidate, and whether the stacks are valid (contract 1.4),
// also those that no sample has.
func (w *stackWalk) findUses() (used, valid bool) {
	note := func(_ usedFrame, f *frame, how use) { f.uses |= 1 << how }
	for i := range w.m.stacks.Len() {
		if w.stackUsers[i] == 0 {
			valid = allIn(w.m.stacks.At(i).LocationIndices(), uint(len(w.marks)))
		} else {
			valid = w.usesOf(int32(i), note)
		}
		if !valid {
			return false, false
		}
	}
	for i := range w.frames {
		f := &w.frames[i]
		marks := w.marks[f.loc]
		for u, how := range callerUse {
			if marks&(1<<u) != 0 {
				f.uses |= 1 << how
			}
		}
		used = used || f.selected && f.uses != 0
	}
	return used, true
}

// usedFrame is a frame in a stack.
type usedFrame struct {
	stack, position, frame int32
	user                   user
}

// usesOf calls visit for each frame in a stack and how the stack uses it; callers whose
// location has no special mark are only marked. It reports false if the stack is not valid.
func (w *stackWalk) usesOf(stack int32, visit func(at usedFrame, f *frame, how use)) (valid bool) {
	for u := range user(numUsers) {
		if w.stackUsers[stack]&(1<<u) == 0 {
			continue
		}
		switch seen, ok := w.walk(stack, u, visit); {
		case !ok:
			return false
		case seen&markSelected == 0:
			w.stackUsers[stack] = 0
		}
	}
	return true
}

// unknownCore stands for an address that is not known and may be in entry code or a thunk. No
// frame has it: it is neither 0 nor in the kernel half.
const unknownCore = 1 << 62

// walk is usesOf for one kind of samples, leaf first. seen is all that is marked of the
// locations.
func (w *stackWalk) walk(stack int32, u user, visit func(at usedFrame, f *frame, how use)) (seen mark, valid bool) {
	indices := w.m.stacks.At(int(stack)).LocationIndices()
	marks := w.marks
	before := uint64(0) // what was looked up for the frame that this one was entered from, if that decides
	for i := range indices.Len() {
		loc := indices.At(i)
		if uint(loc) >= uint(len(marks)) {
			return seen, false
		}
		m := marks[loc]
		seen |= m
		if i > 0 && before == 0 && m < markSpecial { // nearly all
			marks[loc] = m | 1<<u
			continue
		}
		unknown := m&markUnknown != 0
		k := w.frameOf[loc] - 1
		if k < 0 {
			if before = 0; unknown {
				before = unknownCore
			}
			continue
		}
		f := &w.frames[k]
		how := useForeign
		if u != userForeign {
			how, before = w.use(f, i == 0, u, before)
			switch {
			case unknown && u == userEBPF && w.isNamedBPF(f):
				before = 0
			case unknown:
				before = unknownCore
			case before != unknownCore && !w.r.decides(before):
				before = 0
			}
			if f.shared && how < useForeign && i+1 < indices.Len() && w.isPatchSite(indices.At(i+1), u) {
				how |= useAtPatch
			}
		}
		visit(usedFrame{stack: stack, position: int32(i), frame: k, user: u}, f, how)
	}
	return seen, true
}

// use returns how a stack uses a frame, and the address in the core kernel that is
// looked up for it. before is that of the frame that it was entered from.
func (w *stackWalk) use(f *frame, first bool, u user, before uint64) (how use, looked uint64) {
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
	case before == unknownCore && (!w.r.isEntry(ip) || w.r.beginsSymbol(ip)): // else it is a caller
		if how = useUnknown; u == userEBPF {
			how = useUnknownEBPF
		}
		return how, w.r.lookedEitherWay(ip)
	case before == 0:
	case w.r.isEntry(before):
		if !w.r.isEntry(ip) {
			return how | useExact, ip
		}
	case w.r.isThunk(before):
		how |= useAfterThunk
		if w.r.beginsSymbol(ip) {
			return how, ip
		}
	}
	if f.addr == 0 {
		return how, 0
	}
	if w.r.decidesNear(ip) {
		return how, w.r.lookedAsCaller(ip)
	}
	return how, ip - 1
}

// isNamedBPF reports whether a frame that the OTel eBPF profiler sent is one of BPF (contract
// 2.5): it has an offset for an address.
func (w *stackWalk) isNamedBPF(f *frame) bool {
	mp := w.m.maps.at(&w.m, f.mapping)
	return f.named && !inKernelHalf(f.sent) && !mp.vague && mp.content == mappingContent{}
}

// isPatchSite reports whether a location, as a caller, is at the patch site of a function of this
// kernel.
func (w *stackWalk) isPatchSite(loc int32, u user) bool {
	if uint(loc) >= uint(len(w.frameOf)) || w.frameOf[loc] == 0 {
		return false
	}
	f := &w.frames[w.frameOf[loc]-1]
	if f.patch && u != userEBPF {
		return f.atPatch
	}
	ip, during := f.addr, w.times.whole()
	if f.form == formNamed {
		if image, _ := w.r.snapshot.Module(w.m.maps.at(&w.m, f.mapping).module, during); image != nil {
			ip = image.Base() + f.sent
		}
	}
	if u == userEBPF || f.lookedUp {
		ip++
	}
	mp := w.m.maps.at(&w.m, f.mapping)
	site := w.r.patchSite(ip, during)
	is := site != nil && !mp.isGuest && (f.form != formAbsolute || !w.r.contradicts(&mp.content, site))
	if u != userEBPF {
		f.patch, f.atPatch = true, is
	}
	return is
}
