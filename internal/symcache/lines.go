package symcache

import (
	"time"

	"go.uber.org/zap"
)

// A source that changes its state all the time gets so many lines in the log at
// once, and then one each interval.
const (
	lineBurst    = 10
	lineInterval = time.Minute
)

// lines limits the lines about one source.
type lines struct {
	left       int       // that may be written now
	since      time.Time // when left was counted
	unreported int       // changes without a line
	pending    bool      // a line will be written about them
}

// take reports whether a line may be written.
func (l *lines) take(now time.Time) bool {
	if l.since.IsZero() {
		l.left, l.since = lineBurst, now
	}
	if more := int(now.Sub(l.since) / lineInterval); more > 0 {
		l.left = min(lineBurst, l.left+more)
		l.since = l.since.Add(time.Duration(more) * lineInterval)
	}
	if l.left == 0 {
		return false
	}
	l.left--
	return true
}

// log is called with c.mu held. It writes how source i is, now or, after too many
// lines, when it may.
func (c *Cache) log(i int) {
	l := &c.lines[i]
	if !l.take(time.Now()) {
		l.unreported++
		if !l.pending {
			l.pending = true
			wait := time.Until(l.since.Add(lineInterval))
			c.done.Go(func() { c.logLater(i, wait) }) // called by a source that runs: nobody is done waiting
		}
		return
	}
	c.write(i)
}

func (c *Cache) logLater(i int, wait time.Duration) {
	select {
	case <-c.ctx.Done():
		return
	case <-time.After(wait):
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &c.lines[i]
	l.pending = false
	if l.unreported > 0 && l.take(time.Now()) {
		c.write(i)
	}
}

// write writes how source i is.
func (c *Cache) write(i int) {
	h, l := c.health[i], &c.lines[i]
	log := c.logger.With(zap.String("source", h.Source), zap.Stringer("state", h.State))
	if l.unreported > 0 {
		log = log.With(zap.Int("changes not logged", l.unreported))
		l.unreported = 0
	}
	if h.State == StateUp {
		log.Info("Kernel symbols are up to date")
	} else {
		log.Warn("Kernel symbols are incomplete", zap.Error(h.Err))
	}
}
