// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"fmt"
	"iter"
	"maps"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/profilefile"
	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// idle counts what is left out: the waits of kernel threads in their main function, which wait there for work.
type idle struct {
	threads map[int64]bool // by id
	samples int
}

// countedIn yields the samples of a batch that are counted, with the codes of their message. Of running threads, these are all.
func (i *idle) countedIn(b *live.Batch, showIdle bool) iter.Seq2[*rewrite.NamedSample, *codes] {
	i.threads = make(map[int64]bool)
	return func(yield func(*rewrite.NamedSample, *codes) bool) {
		for _, n := range b.Messages {
			codes := newCodes(n)
			for p := range n.Profiles() {
				for s := range p.Samples() {
					if b.OffCPU && !showIdle && codes.isIdle(s) {
						i.threads[readTask(s).tid] = true
						i.samples++
					} else if !yield(s, codes) {
						return
					}
				}
			}
		}
	}
}

// kthread calls the main function of each kernel thread (kernel/kthread.c).
var kthread = Function{Name: "kthread", Module: timeline.KernelName}

// isIdle reports whether a sample is a wait of a kernel thread in its main function: one function, called by kthread, called the
// scheduler. A thread that could have gone on is not idle. Of a wait from before the start this is not known, because the
// kernel leaves locks out of its stack (stack_trace_consume_entry_nosched in kernel/stacktrace.c).
func (c *codes) isIdle(s *rewrite.NamedSample) bool {
	frames := profilefile.AtWait(c.named, s.Frames)
	if len(frames) < 2 || wasPreempted(s) || beganBefore(s) {
		return false
	}
	caller := c.at(frames[1].Code).functions
	return len(caller) == 1 && caller[0] == kthread
}

func (i *idle) add(o *idle) {
	if i.threads == nil {
		i.threads = make(map[int64]bool)
	}
	maps.Copy(i.threads, o.threads)
	i.samples += o.samples
}

// lines says what is left out. live reports whether a key shows it.
func (i *idle) lines(live bool) []string {
	if len(i.threads) == 0 {
		return nil
	}
	with := "--idle"
	if live {
		with = "i"
	}
	return []string{fmt.Sprintf("%s waiting in their main function: %s shows them.", plural.Of(len(i.threads), "kernel thread"), with)}
}
