// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/inline"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/realtime"
	"github.com/kernelsym/kernelsym/internal/symbolize"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// Options say how frames are rewritten. The zero value is the default.
type Options struct {
	All   bool // also the frames that came with a name
	Label bool // name an address without a symbol "module+0x12"

	Addresses Addresses // what to do with absolute addresses

	// AbsoluteFromLocal says that absolute addresses mean nothing unless a message is local: its sender may be guessing
	// where code is loaded (see contract 2.6). While the kernel is located, they never do (see contract 10.5).
	AbsoluteFromLocal bool

	// History is how long unloaded code is remembered. Profiles whose samples are all older are counted; see
	// [Rewriter.ClockOff].
	History time.Duration

	// IsForeign reports whether the profiles of a resource come from another host, whose frames are left
	// alone. It may be nil. A gateway does not use it.
	IsForeign func(pcommon.Resource) bool

	// DebugInfo says that there may be packs (see contract 10.1): frames get files and lines from open packs,
	// and the builds in use are returned.
	DebugInfo bool

	// Inline says that frames also get the functions that were inlined there, and not only the file and line
	// of the outermost function.
	Inline bool

	// Gateway says that frames belong to the kernels of any machines, and that packs alone name them
	// (see contract 10.2). The snapshot is made of packs. It includes DebugInfo.
	Gateway bool
}

// Addresses says what to do with the absolute addresses of kernel frames (see contract 4.1).
type Addresses uint8

// The settings.
const (
	AutoAddresses     Addresses = iota // RelativeAddresses; HideAddresses while the kernel hides the addresses of its symbols
	RelativeAddresses                  // addresses with a relative form become relative
	KeepAddresses                      // all addresses stay as they are
	HideAddresses                      // as RelativeAddresses, all others become 0, and original payloads are removed
)

// An Outcome says what became of a frame.
type Outcome uint8

// The outcomes of package symbolize, and two that need no lookup.
const (
	OutcomeResolved   = Outcome(symbolize.Resolved)
	OutcomeUnresolved = Outcome(symbolize.Unresolved)
	OutcomeAmbiguous  = Outcome(symbolize.Ambiguous)
	OutcomeUnobserved = Outcome(symbolize.Unobserved)
	OutcomeForeign    = Outcome(symbolize.Foreign)
	OutcomeNoPack     = Outcome(symbolize.NoPack)
	OutcomeInvalid    = OutcomeNoPack + 1 // the message refers to something that is not in it
	OutcomeNamed      = OutcomeNoPack + 2 // it came with a name
	NumOutcomes       = int(OutcomeNoPack) + 3
)

// String returns the outcome's name in metrics.
func (o Outcome) String() string {
	return [NumOutcomes]string{
		"resolved", "unresolved", "ambiguous", "unobserved", "foreign", "no_pack", "invalid", "named",
	}[o]
}

// Counts is the number of frames with each outcome, by the origin of their code. If the code of a frame is not
// known, its origin is OriginKernel.
type Counts [NumOutcomes][timeline.NumOrigins]int

// PackCounts is the number of frames with each result of a pack, among the frames for which a symbol was found
// in an image that has a build id.
type PackCounts [inline.NumResults]int

// A Result is what [Rewriter.Rewrite] returns.
type Result struct {
	Profiles pprofile.Profiles
	Counts   Counts
	Packs    PackCounts // with Options.DebugInfo

	// BuildIDs are the builds whose packs are wanted, whether these are open or not. FileIDs are further
	// builds: a gateway has no pack of them, and the message no build id. Each is listed once, and can be part
	// of a file name (see contract 10.3). Without Options.DebugInfo there are none.
	BuildIDs, FileIDs []string
}

// Sources are what frames are named from.
type Sources struct {
	// Snapshot returns the symbols of the kernel. It is called at most once for a message, and only if the
	// message has kernel frames, mappings that may be named after modules, addresses in the kernel half, or
	// the data that a profile was made from.
	Snapshot func() *timeline.Snapshot

	// Clock converts the times of samples to the clock of the snapshot. If it is nil, all samples are looked
	// up at the present.
	Clock *realtime.Clock

	Now int64 // on the clock of the snapshot

	Packs *pack.Set // the packs that are open, with Options.DebugInfo

	Local bool // the message certainly comes from this machine; for Options.AbsoluteFromLocal, and while the kernel is located
}

// A Rewriter rewrites messages. It is safe for concurrent use.
type Rewriter struct {
	opts     Options
	clockOff atomic.Int64
	idle     idlePasses
}

// New returns a Rewriter.
func New(opts Options) *Rewriter {
	opts.DebugInfo = opts.DebugInfo || opts.Gateway
	return &Rewriter{opts: opts}
}

// ClockOff returns the number of profiles so far whose timestamps lie outside this host's clock range: in the
// future, or further back than the history reaches. Only profiles with frames for which the time matters are
// looked at.
func (r *Rewriter) ClockOff() int64 { return r.clockOff.Load() }

// Rewrite rewrites the kernel frames of pd. The resulting profiles are pd itself, or a rewritten copy if pd is
// read-only. If there is nothing to do, pd is left untouched. Rewrite never fails: a frame that cannot be named
// is left as it is, and counted. The cost is in proportion to the size of the message, whatever it says.
func (r *Rewriter) Rewrite(pd pprofile.Profiles, sources Sources) Result {
	p := r.idle.take()
	result := p.rewrite(pd, &r.opts, sources)
	r.clockOff.Add(int64(p.times.clockOff))
	p.close()
	r.idle.keep(p)
	return result
}
