// SPDX-License-Identifier: Apache-2.0

package rewrite

import "strings"

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

// useUnknown is that of a frame that was entered from one which may be in entry code or a
// thunk: its address is not known (contract 2.3), or on a gateway, it is in no core kernel of
// which there is a pack (contract 10.2).
const (
	useUnknown     = useForeign + 1
	useUnknownEBPF = useUnknown + 1 // it was sent by the OTel eBPF profiler
)

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
	markUnknown                                // it may be in entry code or a thunk, and nothing says where
)

// isEBPFProfiler reports whether a scope is that of the OTel eBPF profiler or of a fork of it
// (contract 2.2).
func isEBPFProfiler(scope string) bool {
	program, _ := baseName(scope)
	return strings.HasPrefix(scope, "go.opentelemetry.io/ebpf-profiler") || program == "ebpf-profiler" || scope == "parca-agent"
}
