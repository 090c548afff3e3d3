// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// lookUp looks a frame up, as an exact frame or as a caller (sections 2.2 and 2.3).
func (a *asker) lookUp(u, before *use, first bool) {
	u.ip = u.frame.Address
	if u.of != nil {
		u.ip += u.of.base()
	}
	switch {
	case u.lookedUp:
		u.addr, u.ip = u.ip, u.ip+1
		a.find(u)
		return
	case a.profiler:
		u.ip++
	}
	u.addr = u.ip - 1
	starts := a.startsAt(u, u.ip)
	from := a.decision(before)
	if from == "unknown" && a.core != nil && (!a.inEntry(u.ip) || starts) {
		exact := *u
		exact.addr, exact.exact = u.ip, true
		a.find(&exact)
		u.other = &exact
	}
	switch {
	case first:
		u.addr, u.exact = u.ip, true
	case from == "entry" && !a.inEntry(u.ip):
		u.addr, u.exact = u.ip, true // it was interrupted there
	case from == "thunk" && starts:
		u.addr = u.ip // it was about to be jumped to
	case starts && a.isUncovered(u, u.ip-1):
		u.addr = u.ip
	}
	a.find(u)
	if a.core == nil && u.addr != u.ip && u.hit.symbol != nil && u.hit.symbol != a.hitAt(u, u.ip).symbol {
		u.hit = modelHit{reason: timeline.ReasonUnresolved} // it may have been interrupted there
	}
}

func (a *asker) inEntry(addr uint64) bool {
	return a.landmarks().Entry.Contains(addr) || a.landmarks().Fred.Contains(addr)
}

// decision returns the place of a frame that decides how the next one is looked up: in entry code, in a
// thunk, or unknown.
func (a *asker) decision(u *use) string {
	switch {
	case u == nil:
		return ""
	case a.mayBeEntry(u), u.other != nil && a.decision(u.other) != a.lies(u):
		return "unknown"
	}
	return a.lies(u)
}

// lies is decision for a frame whose role is known.
func (a *asker) lies(u *use) string {
	switch {
	case !u.hasAddress():
		return ""
	case a.inEntry(u.addr):
		return "entry"
	case u.hit.symbol != nil && isThunk(u.hit.symbol.system):
		return "thunk"
	}
	return ""
}

func isThunk(name string) bool {
	name = strings.TrimPrefix(name, "__pi_")
	for _, prefix := range []string{"__x86_indirect_", "srso_", "retbleed_", "its_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == "__x86_return_thunk"
}

// hitAt returns the hit at an address: within the image that the mapping names, if it names one.
func (a *asker) hitAt(u *use, addr uint64) modelHit {
	switch {
	case u.of == nil:
		return a.at(addr, a.q)
	case u.of.contains(addr):
		return modelHit{image: u.of, symbol: u.of.symbol(addr)}
	}
	return modelHit{reason: timeline.ReasonUnresolved, had: u.of.Origin == timeline.OriginModule} // perhaps
}

// isUncovered reports whether it is certain that no symbol covers an address.
func (a *asker) isUncovered(u *use, addr uint64) bool {
	hit := a.hitAt(u, addr)
	if hit.image != nil {
		return hit.symbol == nil && hit.image.isText()
	}
	return hit.symbol == nil && hit.reason == timeline.ReasonUnresolved && !hit.had
}

func (a *asker) startsAt(u *use, addr uint64) bool {
	s := a.hitAt(u, addr).symbol
	return s != nil && s.start == addr
}

// find looks u.addr up.
func (a *asker) find(u *use) { u.hit = a.hitAt(u, u.addr) }

// doubt drops answers about trampolines that are not certain, and code without a name (section 3.5). If a
// frame's role is not known, its caller is no evidence.
func (a *asker) doubt(u, after *use, roleUnknown bool) {
	m := u.hit.image
	switch {
	case m == nil:
	case !m.isText() && m.Name() == "":
		u.hit = modelHit{reason: timeline.ReasonUnresolved}
	case m.Origin == timeline.OriginTrampoline && a.landmarks().SharedTrampolines:
		if roleUnknown || !a.patched(after) || !m.traced.is(after.hit) || u.exact && !a.knowsAllPrograms() {
			u.hit = modelHit{reason: timeline.ReasonUnresolved}
		}
	}
}

// is reports whether the function is that of a hit.
func (f modelTraced) is(hit modelHit) bool {
	switch m := hit.image; {
	case f.isProgram():
		return m.Program != nil && m.Program.ID == f.program && m.TypeID == f.typ
	default:
		return f.name != "" && m.isText() && m.Name() == f.image && (hit.symbol.system == f.name || slices.Contains(hit.symbol.others, f.name))
	}
}

// knowsAllPrograms reports whether no BPF program can have been loaded that is not known.
func (a *asker) knowsAllPrograms() bool {
	blind := a.q != timeline.Present && (a.q.To > a.certain[sourceBPF] || slices.ContainsFunc(a.blind[sourceBPF], a.q.Overlaps))
	return !a.partial && !blind
}

// patched reports whether a frame is where a function of this kernel calls its trampoline.
func (a *asker) patched(u *use) bool {
	if a.core == nil || !u.hasAddress() || u.foreign || u.hit.symbol == nil || u.form == formAbsolute && u.frame.Mapping != nil && !a.isOf(u.frame.Mapping, u.hit.image) || u.hit.image.Origin == timeline.OriginTrampoline || u.hit.image.Origin == timeline.OriginOOL {
		return false
	}
	behind := u.ip - u.hit.symbol.start
	if a.landmarks().Arch == "arm64" {
		return behind == 8 || behind == 12
	}
	return behind == 5 || behind == 9
}
