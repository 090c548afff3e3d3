// SPDX-License-Identifier: Apache-2.0

// Package rewrite puts names on the kernel frames of OTLP profiles: sections 1
// to 5 of the contract, on the dictionary of one message at a time.
//
// It is pure: what it knows of the kernel is in the snapshot it is given.
//
// # Glossary
//
//   - frame: one Location of the dictionary that is kernel code, whatever the number of
//     samples.
//   - candidate: a frame that is to be looked up (contract 1).
//   - ip: the instruction pointer that a frame was sent for (contract 2.2).
//   - use: how a stack uses a frame: it decides which address is looked up (contract 2.3).
//   - answer: what a frame is, for one use, at one time.
//   - split: to give the samples that need another answer a copy of the frame
//     (contract 5.5).
//   - chain: the lines that a pack has for an address: of the functions that were inlined
//     there, innermost first, and of the one that has the code (contract 10.1).
//
// # The flow
//
// [Rewriter.Rewrite] takes a pass over a message. A message (dictionary, attributes,
// mappings, functions) knows the tables and appends to them. candidates finds the frames
// and what their addresses mean, stackWalk how stacks use them. The resolver answers an
// address, a use and a time. In the order of addresses, a pass resolves the candidates;
// those that have one answer are written in the order of their locations; the others it
// hands to the splitter, which works out which answers the samples need, appends the
// locations and stacks that have them, and points the samples there.
//
// Most messages need no split, and those without candidates end after the first step.
package rewrite

import (
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/realtime"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// Options say how frames are rewritten. The zero value is the default.
type Options struct {
	All           bool // also the frames that came with a name
	KeepAddresses bool // leave addresses as they came, not relative to the module
	Label         bool // name what is in a module but not in a symbol "module+0x12"

	// History is for how long code that was unloaded is known. Profiles whose samples
	// are all older are counted; see [Rewriter.ClockOff].
	History time.Duration

	// IsForeign reports whether the profiles of a resource come from another
	// host, whose frames are left alone. It may be nil. A gateway has no use for it.
	IsForeign func(pcommon.Resource) bool

	// DebugInfo says that there may be packs (contract 10.1): frames get files and lines
	// from those that are known, and the builds in use are returned.
	DebugInfo bool

	// Inline says that frames also get the functions that were inlined there, and not only
	// the file and line that the outermost function was at.
	Inline bool

	// Gateway says that frames are of any machine's kernel, and named by packs alone
	// (contract 10.2), of which the snapshot is made. It includes DebugInfo.
	Gateway bool
}

// Outcome is what became of a frame.
type Outcome uint8

// The outcomes.
const (
	OutcomeResolved   Outcome = iota
	OutcomeUnresolved         // no symbol covers its address
	OutcomeAmbiguous          // several images had its address at about that time
	OutcomeUnobserved         // code may have come or gone unseen at that time
	OutcomeForeign            // of another kernel: another host, boot, build or guest
	OutcomeInvalid            // the message refers to something that is not in it
	OutcomeNoPack             // a gateway has no pack of its build, or cannot tell the build
	OutcomeNamed              // it came with a name
	NumOutcomes       = iota
)

// String returns the outcome's name in metrics.
func (o Outcome) String() string {
	return [NumOutcomes]string{
		"resolved", "unresolved", "ambiguous", "unobserved", "foreign", "invalid", "no_pack", "named",
	}[o]
}

// Counts is how many frames had which outcome, by the origin of their code. The
// origin of a frame whose code is not known is OriginKernel.
type Counts [NumOutcomes][timeline.NumOrigins]int

// PackResult is what a pack gave for a frame.
type PackResult uint8

// The results.
const (
	PackLines        PackResult = iota // file and line of its function
	PackInlined                        // and functions that were inlined there
	PackNone                           // nothing: there is no pack, or it knows nothing there
	PackNameMismatch                   // nothing, as the pack has another function there
	NumPackResults   = iota
)

// String returns the result's name in metrics.
func (r PackResult) String() string {
	return [NumPackResults]string{"lines", "inlined", "none", "name_mismatch"}[r]
}

// PackCounts is how many frames had which result: of those that a symbol was found for, in
// the core kernel or a module that has a build id.
type PackCounts [NumPackResults]int

// Result is what [Rewriter.Rewrite] returns.
type Result struct {
	Profiles pprofile.Profiles
	Counts   Counts
	Packs    PackCounts // with Options.DebugInfo

	// BuildIDs are the builds that packs are wanted of, whether there is one or not: those
	// of the frames that packs can add to. FileIDs stand for further ones: a gateway has no
	// pack of them, and the message no build id. Each is there once; all are fit to be part
	// of a file name (contract 10.3). Without Options.DebugInfo there are none.
	BuildIDs, FileIDs []string
}

// Known is what is known of the kernel when a message comes.
type Known struct {
	// Snapshot returns what the sources know. It is called once for a message with
	// kernel frames, and not for others.
	Snapshot func() *timeline.Snapshot

	// Clock converts the times of samples to the clock of the snapshot. If it is
	// nil, all samples are taken to be of now.
	Clock *realtime.Clock

	Now int64 // on the clock of the snapshot

	Packs *pack.Set // with Options.DebugInfo: those that are open
}

// A Rewriter rewrites messages. It is safe for concurrent use.
type Rewriter struct {
	opts     Options
	clockOff atomic.Int64

	// idle are passes that wait for a message. Not in a sync.Pool: messages come
	// every few seconds, and by the next one that would be empty.
	mu   sync.Mutex
	idle []*pass
}

// How many passes are kept at most, and how many bytes they hold together: of so many
// messages at a time, the memory is used again.
const (
	maxIdle = 4
	maxKept = 64 << 20
)

// New returns a Rewriter.
func New(opts Options) *Rewriter {
	opts.DebugInfo = opts.DebugInfo || opts.Gateway
	return &Rewriter{opts: opts}
}

func (r *Rewriter) get() *pass {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := len(r.idle) - 1; last >= 0 {
		p := r.idle[last]
		r.idle = r.idle[:last]
		return p
	}
	return new(pass)
}

func (r *Rewriter) put(p *pass) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := p.bytes()
	for _, other := range r.idle {
		kept += other.bytes()
	}
	if len(r.idle) < maxIdle && kept <= maxKept {
		r.idle = append(r.idle, p)
	}
}

// ClockOff returns the number of profiles so far whose timestamps lie outside this host's
// clock range: in the future, or further back than the history reaches. Only profiles
// with frames for which time matters are looked at.
func (r *Rewriter) ClockOff() int64 { return r.clockOff.Load() }

// Rewrite rewrites the kernel frames of pd with what is known. The resulting profiles are
// pd itself, or a rewritten copy if pd is read-only. It leaves pd untouched if there is
// nothing to do. It never fails: a frame that cannot be named is left as it is and counted.
// What a message costs is in proportion to its size, whatever it says.
func (r *Rewriter) Rewrite(pd pprofile.Profiles, known Known) Result {
	p := r.get()
	p.begin(&r.opts, known)
	result := Result{Profiles: p.run(pd)}
	result.Counts, result.Packs = p.counts, p.w.gave
	result.BuildIDs, result.FileIDs = p.r.lines.wanted.builds, p.r.lines.wanted.files
	if p.times.clockOff > 0 {
		r.clockOff.Add(int64(p.times.clockOff))
	}
	p.end()
	r.put(p)
	return result
}
