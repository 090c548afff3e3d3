// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
)

// sayEvery is the time between two messages about changes that are not shown.
const sayEvery = 10 * time.Second

// unshown counts the changes that could not be shown.
type unshown struct {
	brief int       // pieces of code that came and went between two tables
	lost  int64     // records that the kernel lost
	said  time.Time // time of the last message; zero before the first
	news  bool      // the counts have grown since the last message
}

func (u *unshown) add(brief int, lost int64) {
	u.brief, u.lost = u.brief+brief, u.lost+lost
	u.news = u.news || brief > 0 || lost > 0
}

// say prints the counts so far if they have grown since the last message. It does so at most once
// every sayEvery, and at the end.
func (u *unshown) say(out *printable.Printer, atEnd bool) {
	if !u.news || !atEnd && time.Since(u.said) < sayEvery {
		return
	}
	u.news, u.said = false, time.Now()
	if u.brief > 0 {
		out.Printf("%s of BPF code came and went before they could be shown.\n", plural.Of(u.brief, "piece"))
	}
	if u.lost > 0 {
		out.Printf("The kernel lost %s: what came and went at that time may be missing.\n", plural.Of(int(u.lost), "record"))
	}
}
