package kmod

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// A Source publishes the loadable modules and their symbols.
type Source struct {
	procfs, sysfs string
	settle        time.Duration
	history       symtab.History
	dial          func() (events, error)
	stats         symcache.Stats
	known         *known // of all runs; nil before the first
}

// events is what tells of changes.
type events interface {
	Receive(ctx context.Context) (uevent.Event, error)
	Close() error
}

// NewSource returns a source that reads below procfs and sysfs, the directories
// at which /proc and /sys are mounted. After a change it waits for settle, for
// further changes, before it reads. What is unloaded stays known as history says.
func NewSource(procfs, sysfs string, settle time.Duration, history symtab.History) *Source {
	return &Source{
		procfs: procfs, sysfs: sysfs, settle: settle, history: history,
		dial: func() (events, error) { return uevent.Dial() },
	}
}

// Name returns "modules".
func (*Source) Name() string { return "modules" }

// Stats returns what the source counts.
func (s *Source) Stats() *symcache.Stats { return &s.stats }

// Run publishes the modules, and anew when modules were loaded or unloaded: the
// first time with their symbols, later before they are read and once they were. A
// kernel without loadable modules has an empty table. Without what sysfs tells,
// and without events, modules are published as degraded. Errors are those of
// reading the two files in procfs, and kallsyms.ErrRestricted.
//
// Run can be called again, by one goroutine at a time. It goes on where the last run
// ended: what came and went in between is taken for what came and went since that
// last looked.
func (s *Source) Run(ctx context.Context, publish func(t *symtab.Table, degraded error)) error {
	w := newWatcher(ctx, s.dial, s.settle, &s.stats) // before anything is listed, or what is loaded in between is missed
	defer w.close()
	if s.known == nil {
		s.known = newKnown(s)
	}
	k := s.known
	k.begin(w.news)
	said := ""
	tell := func() {
		degraded := errors.Join(k.degraded(), w.err)
		said = fmt.Sprint(degraded)
		publish(k.table(), degraded)
	}
	for {
		again, err := k.refresh(ctx, tell)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if !w.wait(ctx, again) {
			return nil
		}
		if k.begun && fmt.Sprint(errors.Join(k.degraded(), w.err)) != said {
			tell()
		}
	}
}

// list returns the modules in the kernel's list. A kernel that was built without
// modules has no such file.
func (s *Source) list() ([]identity, error) {
	f, err := os.Open(filepath.Join(s.procfs, "modules"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := parseList(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	ids := make([]identity, len(list))
	for i, l := range list {
		ids[i].listed = l
		if info, err := os.Stat(s.dir(l.name)); err == nil {
			ids[i].dir = info
		}
	}
	return ids, nil
}

// hasSysfs reports whether there are modules below sysfs.
func (s *Source) hasSysfs() bool {
	_, err := os.Stat(filepath.Join(s.sysfs, "module"))
	return err == nil
}

// isLoaded reports whether a load of a module is still there.
func (s *Source) isLoaded(id identity) bool {
	list, err := s.list()
	return err == nil && id.dir != nil && slices.ContainsFunc(list, id.same)
}

func (s *Source) dir(module string) string {
	return filepath.Join(s.sysfs, "module", module)
}

// identity tells one load of a module from the next, which can have the same
// name, size and address: its directory in sysfs is another one.
type identity struct {
	listed
	dir fs.FileInfo // nil if it cannot be read
}

func (id identity) same(other identity) bool {
	if id.dir == nil || other.dir == nil {
		return id.listed == other.listed && id.dir == other.dir
	}
	return id.listed == other.listed && os.SameFile(id.dir, other.dir)
}
