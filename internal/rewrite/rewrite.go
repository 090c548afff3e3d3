// Package rewrite puts names on the kernel frames of OTLP profiles: sections 1
// to 4 and 6 of the contract, on the dictionary of one message at a time.
//
// It is pure: what it knows of the kernel is in the snapshot it is given.
//
// # Glossary
//
//   - frame: one Location of the dictionary, whatever the number of samples.
//   - candidate: a frame of kernel code that is to be looked up (section 1).
//   - role: how a frame is used: as the leaf of a stack, where the CPU was, or
//     as a caller, of which it holds the return address. The role decides which
//     address is looked up (2.2, 2.3), and a frame can have several.
//   - split: to give the samples that use a frame in one role a copy of it,
//     because the answer for another role differs (2.4).
//
// # The flow
//
// [Rewriter.Rewrite] takes a pass over the dictionary in steps, each in the file
// named after it: candidates finds the frames; address says which address they
// mean; answer looks it up, once for each role in which the answer could differ;
// write puts the answer into the location, by way of tables, which appends to
// the dictionary without duplicates; split does what roles and resources with
// different answers demand. Most messages need no split, and those without
// candidates end after the first step.
package rewrite

import (
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/realtime"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// Options say how frames are rewritten. The zero value is the default.
type Options struct {
	All           bool // also the frames that have a name already
	KeepAddresses bool // leave addresses as they came, not relative to the module
	Label         bool // name what is in a module but not in a symbol "module+0x12"

	// History is for how long code that was unloaded is known. Times of samples
	// from before cannot be this machine's.
	History time.Duration

	// IsForeign reports whether the profiles of a resource come from another
	// host, whose frames are left alone. It may be nil.
	IsForeign func(pcommon.Resource) bool
}

// Outcome is what became of a frame.
type Outcome uint8

// The outcomes.
const (
	OutcomeResolved   Outcome = iota
	OutcomeUnresolved         // no symbol covers its address
	OutcomeExpired            // what covered it is too long ago to be known
	OutcomeForeign            // of another kernel: another host, boot or guest
	OutcomeInvalid            // refers to something that is not in the message
	NumOutcomes       = iota
)

// String returns the outcome's name in metrics.
func (o Outcome) String() string {
	return [NumOutcomes]string{"resolved", "unresolved", "expired", "foreign", "invalid"}[o]
}

// Counts is how many frames had which outcome, by the origin of their code. The
// origin of a frame whose code is not known is OriginKernel.
type Counts [NumOutcomes][symtab.NumOrigins]int

// Known is what is known of the kernel when a message comes.
type Known struct {
	Snapshot *symtab.Snapshot

	// Clock converts the times of samples to the clock of the snapshot. If it is
	// nil, all samples are taken to be of now.
	Clock *realtime.Clock

	Now int64 // on the clock of the snapshot
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

// maxIdle is the number of passes that are kept: of so many messages at a time,
// the memory is used again.
const maxIdle = 4

// New returns a Rewriter.
func New(opts Options) *Rewriter { return &Rewriter{opts: opts} }

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
	if len(r.idle) < maxIdle {
		r.idle = append(r.idle, p)
	}
}

// ClockOff returns the number of profiles so far of which most samples had times that
// cannot be this machine's. Where it mattered, they were taken to be as of when the
// profile came. Profiles for which it did not matter are not looked at.
func (r *Rewriter) ClockOff() int64 { return r.clockOff.Load() }

// Rewrite rewrites the kernel frames of pd with what is known, and returns the result,
// which is pd itself, or a rewritten copy if pd is read-only. It returns pd untouched if
// there is nothing to do. It never fails: a frame that cannot be named is left as it is
// and counted. What a message costs is in proportion to its size, whatever it says.
func (r *Rewriter) Rewrite(pd pprofile.Profiles, known Known) (pprofile.Profiles, Counts) {
	p := r.get()
	p.begin(pd, &r.opts, known)
	p.findCandidates()
	if len(p.candidates) > 0 {
		own := pd
		if pd.IsReadOnly() {
			own = copyOf(pd)
			p.use(own)
		}
		p.rewrite()
		if p.wrote {
			pd = own
		}
	}
	counts := p.counts
	if p.clockOff > 0 {
		r.clockOff.Add(int64(p.clockOff))
	}
	if p.end() {
		r.put(p)
	}
	return pd, counts
}

func copyOf(pd pprofile.Profiles) pprofile.Profiles {
	c := pprofile.NewProfiles()
	pd.CopyTo(c)
	return c
}
