package bpfprog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// pollInterval is the time between two lists of programs without records.
const pollInterval = time.Second

// poll lists programs again and again, as records are refused, until ctx is done or
// they are not refused any more.
func (s *Source) poll(ctx context.Context, f *follower, publish func(*symtab.Table, error)) error {
	f.giveUpOthers(f.resyncs.certain)
	f.doubts, f.othersErr = doubts{later: true}, nil
	f.resync(ctx)
	switch {
	case errors.Is(f.listErr, bpf.ErrUnsupported):
		publish(f.table(), nil) // a kernel without BPF
		<-ctx.Done()
		return nil
	case f.listErr != nil:
		return errors.Join(f.recordErr, f.listErr)
	}
	publish(f.table(), f.degraded())
	list, again := time.NewTicker(pollInterval), time.NewTicker(s.recordAgain)
	defer list.Stop()
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
			if records, err := s.record(); err == nil {
				f.recordErr = nil
				return f.follow(ctx, records, publish)
			}
		case <-list.C:
			changed := f.resync(ctx)
			if f.expire() || changed {
				publish(f.table(), f.degraded())
			}
		}
	}
}

// degraded says what is missing from the table, and what to do about it.
func (f *follower) degraded() error {
	var recordErr, listErr, askErr, othersErr error
	if f.recordErr != nil {
		lost := "BPF programs are looked at once a second only"
		if f.opts.Trampolines {
			lost += ", and trampolines have no names"
		}
		recordErr = fmt.Errorf("%s: %w", lost, f.recordErr)
	}
	switch {
	case f.listErr == nil || errors.Is(f.listErr, bpf.ErrUnsupported): // a kernel without BPF
	case f.opts.SourceLines:
		listErr = fmt.Errorf("BPF programs have no source lines, and those loaded before the start no certain lengths: %w", f.listErr)
	default:
		listErr = fmt.Errorf("BPF programs loaded before the start have no certain lengths: %w", f.listErr)
	}
	switch {
	case f.othersErr == nil:
	case f.listErr != nil:
		othersErr = fmt.Errorf("code of BPF that was there before the start has no name: %w", f.othersErr)
	default:
		othersErr = fmt.Errorf("trampolines that were there before the start have no names: %w", f.othersErr)
	}
	if f.askErr != nil {
		askErr = fmt.Errorf("not all is known of each BPF program; they are asked for again within a minute: %w", f.askErr)
	}
	return errors.Join(recordErr, listErr, askErr, othersErr)
}
