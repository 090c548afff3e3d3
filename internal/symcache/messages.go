// SPDX-License-Identifier: Apache-2.0

package symcache

import (
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"
)

// A source that changes its state all the time gets so many log messages at once, and
// then one each interval.
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

// log is called with c.mu held. It writes how source i is, now or, after too many
// messages, when it may.
func (c *Cache) log(i int) {
	l := &c.messages[i]
	if l.pending {
		l.unreported++
		return
	}
	wait := l.limit.Reserve().Delay()
	if wait == 0 {
		c.write(i)
		return
	}
	l.unreported++
	if c.ctx.Err() != nil {
		return // nobody would wait for it
	}
	l.pending = true
	c.done.Go(func() { c.logLater(i, wait) }) // called by a source that runs: nobody is done waiting
}

func (c *Cache) logLater(i int, wait time.Duration) {
	c.mu.Lock()
	ended := c.ctx.Done()
	c.mu.Unlock()
	select {
	case <-ended:
		return
	case <-time.After(wait):
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages[i].pending = false
	c.write(i)
}

// write writes how source i is.
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
