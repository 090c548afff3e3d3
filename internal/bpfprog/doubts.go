package bpfprog

import (
	"context"
	"slices"
	"time"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// doubts is what is known of code that is in no list of programs, when records were
// lost: that may have been those of its end.
type doubts struct {
	any     bool      // and not looked after yet
	certain int64     // until when no record was missing, on their clock
	until   int64     // when they were lost for the last time, on that clock
	began   time.Time // when they were lost for the first time,
	lost    time.Time // and for the last time
	gaveUp  bool      // what there were doubts of is taken for gone, and is to be looked for

	looked time.Time // when the kernel's list of symbols was read last
	later  bool      // the next look is not the first, or not at the source's beginning
}

// The kernel's list of symbols is read once it is quiet, for so long no records were
// lost, and at most so often. What there are doubts of for longer is taken for gone.
const (
	quiet       = 10 * time.Second
	lookEvery   = time.Minute
	doubtAtMost = 2 * time.Minute
)

// add notes that records were lost, at an instant. Until certain none was missing.
func (d *doubts) add(certain, at int64) {
	now := time.Now()
	if !d.any {
		d.any, d.certain, d.began = true, certain, now
	}
	d.lost, d.until = now, at
}

// quietAt returns when the kernel's list can be read.
func (d *doubts) quietAt() time.Time {
	at := d.lost.Add(quiet)
	if next := d.looked.Add(lookEvery); next.After(at) {
		return next
	}
	return at
}

// due returns when to do something about the doubts.
func (d *doubts) due() time.Time {
	return earlier(d.began.Add(doubtAtMost), d.quietAt())
}

// others returns the functions that are there of which no list of programs tells.
func (f *follower) others() []*symtab.Function {
	return slices.DeleteFunc(f.functions.All(), func(function *symtab.Function) bool {
		return f.isListed(function.Origin)
	})
}

// giveUpOthers records that the functions of which no list of programs tells are gone,
// as nobody tells whether they are, and reports whether there were any.
func (f *follower) giveUpOthers(certain int64) (some bool) {
	others := f.others()
	for _, function := range others {
		f.unloadMissed(function, certain, f.now())
	}
	return len(others) > 0
}

// settleDoubts finds out what is gone of which no list of programs tells, and reports
// whether anything is, or is new. It reads the kernel's list of symbols, and takes what
// is not there for gone.
func (f *follower) settleDoubts(ctx context.Context) (changed bool) {
	d := &f.doubts
	doubtful := slices.DeleteFunc(f.others(), func(function *symtab.Function) bool {
		return earliest(function) > d.until
	})
	switch {
	case len(doubtful) == 0 && !d.gaveUp:
		d.any = false
		return false
	case time.Now().Before(d.quietAt()):
		d.gaveUp, d.began = true, time.Now()
		return f.giveUpOthers(d.certain)
	}
	was, began := f.degraded(), f.now()
	others, err := f.readSymbols(ctx)
	missing := missingOf(doubtful, others)
	if err == nil && len(missing) > 0 {
		// One that goes while the list is read can hide another.
		again, _ := f.readSymbols(ctx)
		missing = missingOf(missing, again)
	}
	if ctx.Err() != nil {
		return false
	}
	for _, function := range missing {
		f.unloadMissed(function, d.certain, f.now())
	}
	maybe := f.began
	if f.othersErr == nil {
		maybe = d.certain
	}
	changed = f.take(others, maybe) || len(missing) > 0
	f.othersErr = err
	f.doubts = doubts{looked: time.Now(), later: true}
	if f.listErr != nil { // else that is what a list of programs says
		f.resyncs.looks = looks{certain: began}
	}
	return changed || (was == nil) != (err == nil)
}

// missingOf returns the functions that the kernel's list of symbols does not have.
func missingOf(functions []*symtab.Function, others []other) (missing []*symtab.Function) {
	names := make(map[uint64][]*other, len(others))
	for i := range others {
		names[others[i].addr] = append(names[others[i].addr], &others[i])
	}
	for _, function := range functions {
		if !slices.ContainsFunc(names[function.Start], func(o *other) bool {
			return o.origin == function.Origin && isNamed(function, o.name)
		}) {
			missing = append(missing, function)
		}
	}
	return missing
}
