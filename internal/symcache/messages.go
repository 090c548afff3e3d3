// SPDX-License-Identifier: Apache-2.0

package symcache

import (
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

// A source that keeps changing its state gets messageBurst log messages at once, and then one
// per interval.
const (
	messageBurst    = 10
	messageInterval = time.Minute
)

// messages limits the log messages about one source.
type messages struct {
	limit      *rate.Limiter
	unreported int  // changes without a message
	pending    bool // a message will be written about them
}

func newMessages() messages {
	return messages{limit: rate.NewLimiter(rate.Every(messageInterval), messageBurst)}
}

// log logs the state of source i, now or, after too many messages, when the limit allows it. It
// is called with c.mu held.
func (c *Cache) log(i int) {
	l := &c.state.messages[i]
	if l.pending {
		l.unreported++
		return
	}
	wait := l.limit.Reserve().Delay()
	if wait == 0 {
		c.state.write(i)
		return
	}
	l.unreported++
	if c.state.ctx.Err() != nil {
		return // nothing would wait for the goroutine
	}
	l.pending = true
	c.done.Go(func() { c.logLater(i, wait) }) // a running source calls this, so done.Wait has not returned
}

func (c *Cache) logLater(i int, wait time.Duration) {
	select {
	case <-c.state.ctx.Done():
		return
	case <-time.After(wait):
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.messages[i].pending = false
	c.state.write(i)
}

// write logs the state of source i.
func (s *state) write(i int) {
	h, l := s.health[i], &s.messages[i]
	log := s.logger.With(zap.String("source", h.Source), zap.Stringer("state", h.State))
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
