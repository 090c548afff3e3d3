// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// childEnv is the variable in which the child of TestPrivileges receives its witness.
const childEnv = "KERNELSYM_TEST_PRIVILEGES"

// witness has the code that the child must name.
type witness struct {
	Core, Module, Before place
}

// child checks what the sources name.
type child struct {
	t     *testing.T
	cache *symcache.Cache
}

// TestPrivilegesChild is the child process of TestPrivileges. It runs the sources with the rights
// that it has, reports when they have begun, reads which programs were loaded since then, and
// reports what is named.
func TestPrivilegesChild(t *testing.T) {
	knows := os.Getenv(childEnv)
	if knows == "" {
		t.Skip("run by TestPrivileges")
	}
	var w witness
	require.NoError(t, json.Unmarshal([]byte(knows), &w))
	c := &child{t: t, cache: symcache.Start(zap.NewNop(), nil, sources.List(sources.Options{
		Procfs: "/proc", Sysfs: "/sys",
		Modules: sources.Modules{Enabled: true, Settle: 50 * time.Millisecond},
		BPF:     sources.BPF{Enabled: true, SourceLines: true, Trampolines: true},
		History: timeline.Limits{TTL: 10 * time.Minute, MaxEntries: 1 << 16},
	})...)}
	defer c.cache.Stop()
	c.eventually("the sources say how they are", func() bool {
		for _, h := range c.cache.Health() {
			if h.State == symcache.StateStarting {
				return false
			}
		}
		return true
	})
	// Modules are published before their symbols.
	c.eventually("the module has its symbols", func() bool {
		hit, _ := c.cache.Fresh().At(w.Module.Addr, timeline.Present)
		return w.Module.Addr == 0 || hit.Image == nil || hit.Image.Len() > 0 || c.status("modules") != ""
	})
	result := os.NewFile(3, "result")
	fmt.Fprintln(result, "ready")
	o := outcome{Core: yes(c.knows(w.Core)), Modules: yes(c.knows(w.Module)), Before: c.detail(w.Before)}
	var since []place
	require.NoError(t, json.NewDecoder(os.Stdin).Decode(&since))
	o.Since = c.since(since[len(since)-1], since[:len(since)-1])
	o.Status = make(map[string]string)
	for _, h := range c.cache.Health() {
		if status := c.status(h.Source); status != "" {
			o.Status[h.Source] = status
		}
	}
	// If the list of names is read with interruptions, its budget is not enough.
	o.Disturbed = strings.Contains(o.Status["bpf"], "read budget")
	for _, counts := range c.cache.Counts() {
		o.Disturbed = o.Disturbed || counts.Counts.LostRecords > 0
	}
	// A crowded ring also makes blind time, without a lost record.
	for _, table := range c.cache.Snapshot().Tables() {
		unsure := strings.HasSuffix(o.Since, atNextPoll) && !strings.Contains(o.Status["bpf"], "perf event")
		o.Disturbed = o.Disturbed || unsure && table.BlindTime() > 0
	}
	require.NoError(t, json.NewEncoder(result).Encode(o))
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// eventually waits for something that takes a moment. It waits much longer than that, because other
// tests may load thousands of programs at the same time.
func (c *child) eventually(what string, is func() bool) {
	c.t.Helper()
	require.Eventually(c.t, is, 5*time.Minute, time.Millisecond, what)
}

// status returns the state of a source and the reason, or "" if the source is up.
func (c *child) status(source string) string {
	for _, h := range c.cache.Health() {
		if h.Source == source && h.State != symcache.StateUp {
			return fmt.Sprintf("%v: %v", h.State, h.Err)
		}
	}
	return ""
}

func (c *child) find(p place) (timeline.Hit, bool) {
	at := timeline.Present
	if p.At != 0 {
		at = timeline.Instant(p.At)
	}
	hit, _ := c.cache.Fresh().At(p.Addr, at)
	s := hit.Symbol
	return hit, s.Exists() && s.Start == p.Addr && strings.HasPrefix(hit.Name().System, p.Name)
}

func (c *child) knows(p place) bool {
	_, ok := c.find(p)
	return ok
}

// detail returns how much is known about a BPF function.
func (c *child) detail(p place) string {
	hit, ok := c.find(p)
	switch {
	case !ok:
		return "no"
	case hit.Image.Lines.Len() == 0:
		return "name"
	case hit.Symbol.End() != p.End:
		return "wrong length"
	}
	return "exact"
}

// atNextPoll says that a program is only known if it is loaded at the next poll.
const atNextPoll = "if loaded at the next poll"

// since returns how much is known about programs that were loaded since the sources began: about
// one that stays, and about others that were unloaded at once.
func (c *child) since(stays place, brief []place) string {
	c.eventually("the program is named, or never will be", func() bool {
		switch c.detail(stays) {
		case "no":
			return strings.HasPrefix(c.status("bpf"), "down")
		case "exact":
			return true
		}
		return c.status("bpf") != "" // otherwise, its lines come in a moment
	})
	detail := c.detail(stays)
	if detail == "no" {
		return detail
	}
	when := atNextPoll
	unknown := func(p place) bool { return !c.knows(p) }
	for began := time.Now(); when != "at once" && time.Since(began) < time.Minute; time.Sleep(time.Millisecond) {
		if !slices.ContainsFunc(brief, unknown) {
			when = "at once"
		}
	}
	for _, p := range brief {
		if when != "at once" {
			hit, _ := c.cache.Fresh().At(p.Addr, timeline.Instant(p.At))
			c.t.Logf("%s at %#x, %v ago: %v; tables: %s", p.Name, p.Addr, ago(p.At), hit.Reason, c.certainty(p.At))
		}
	}
	return detail + ", " + when
}

// ago returns how long ago an instant was.
func ago(at int64) time.Duration { return time.Duration(perfring.Boottime.Now() - at) }

// certainty returns until when tables are certain, how much blind time they have, and whether an
// instant is in it.
func (c *child) certainty(at int64) (text string) {
	for _, table := range c.cache.Snapshot().Tables() {
		text += fmt.Sprintf("until %v ago, %v blind (%t); ", ago(table.Certain()), table.BlindTime(), table.IsBlind(timeline.Instant(at)))
	}
	return text
}
