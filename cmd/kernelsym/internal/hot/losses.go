// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"fmt"
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
)

// losses count missing samples.
type losses struct {
	records   uint64        // samples that the kernel had no room for
	names     uint64        // records of threads and cgroups that it had no room for
	throttled int           // times that the kernel stopped sampling a CPU
	waits     int           // waits left out because records were lost
	paused    time.Duration // for which nothing was sampled
}

func lossesOf(b *live.Batch) losses {
	return losses{records: b.Lost, names: b.LostNames, throttled: b.Throttled, waits: b.LostWaits, paused: b.Paused}
}

func (l *losses) add(o losses) {
	l.records, l.names, l.throttled = l.records+o.records, l.names+o.names, l.throttled+o.throttled
	l.waits, l.paused = l.waits+o.waits, l.paused+o.paused
}

// problems describes them. elapsed is the time that was sampled, and last the last batch.
func (l *losses) problems(last *live.Batch, elapsed time.Duration) (lines []string) {
	if l.records > 0 && !last.OffCPU {
		lines = append(lines, "Samples were lost: shares are too small. Lower -F.")
	}
	if l.throttled > 0 {
		lines = append(lines, topview.Throttled(l.throttled))
	}
	if l.waits > 0 {
		lines = append(lines, plural.Of(l.waits, "wait")+" not known, because records were lost: numbers are too small.")
	}
	if l.paused > 0 {
		lines = append(lines, fmt.Sprintf("Too many context switches to record them all: %.0f%% of the time was sampled.",
			percent(int64(elapsed), float64(elapsed+l.paused))))
	}
	if last.Others != nil {
		lines = append(lines, "Events of the whole machine were recorded: "+last.Others.Error())
	}
	if last.NoBefore != nil {
		lines = append(lines, "Threads that hung before the start can be missing: "+last.NoBefore.Error())
	}
	return lines
}

// recorded says which threads have events of their own, if only those are recorded.
func recorded(b *live.Batch) []string {
	if b.Recorded == nil {
		return nil
	}
	return []string{"Recording the switches of " + plural.Of(*b.Recorded, "thread") + " only."}
}
