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

	"github.com/kernelsym/kernelsym/internal/symtab"
)

// pollInterval is the time between two looks at the list of modules.
const pollInterval = time.Second

// A Source publishes the loadable modules and their symbols.
type Source struct {
	procfs, sysfs string
	settle        time.Duration
	poll          time.Duration
}

// NewSource returns a source that reads below procfs and sysfs, the directories
// at which /proc and /sys are mounted. After a change it waits for settle, for
// further changes, before it reads.
func NewSource(procfs, sysfs string, settle time.Duration) *Source {
	return &Source{procfs: procfs, sysfs: sysfs, settle: settle, poll: pollInterval}
}

// Name returns "modules".
func (*Source) Name() string { return "modules" }

// Run publishes the modules, and anew when modules were loaded or unloaded. A
// kernel without loadable modules has an empty table. Without what sysfs tells,
// modules are published as degraded. Errors are those of reading the two files
// in procfs, and kallsyms.ErrRestricted.
func (s *Source) Run(ctx context.Context, publish func(t *symtab.Table, degraded error)) error {
	var seen []identity
	for first := true; ; first = false {
		list, err := s.list()
		if err != nil {
			return err
		}
		now := s.identities(list)
		if first || !sameLoads(now, seen) {
			if !first {
				// For more of the same kind.
				if !sleep(ctx, s.settle) {
					return nil
				}
				if list, err = s.list(); err != nil {
					return err
				}
				now = s.identities(list)
			}
			table, degraded, err := s.load(list)
			if err != nil {
				return err
			}
			// While kallsyms is read, a module that comes or goes shifts the rest.
			if list, err = s.list(); err != nil {
				return err
			}
			if first || sameLoads(now, s.identities(list)) {
				publish(table, degraded)
			}
			seen = now
		}
		if !sleep(ctx, s.poll) {
			return nil
		}
	}
}

// sleep waits and reports whether ctx is not done.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// list returns the loaded modules. A kernel that was built without modules has
// no such file.
func (s *Source) list() ([]listed, error) {
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
	return list, nil
}

// identity tells one load of a module from the next, which can have the same
// name, size and address: its directory in sysfs is another one.
type identity struct {
	listed
	dir fs.FileInfo // nil if it cannot be read
}

func sameLoads(a, b []identity) bool { return slices.EqualFunc(a, b, identity.same) }

func (id identity) same(other identity) bool {
	if id.dir == nil || other.dir == nil {
		return id.listed == other.listed && id.dir == other.dir
	}
	return id.listed == other.listed && os.SameFile(id.dir, other.dir)
}

func (s *Source) identities(list []listed) []identity {
	ids := make([]identity, len(list))
	for i, l := range list {
		ids[i].listed = l
		if info, err := os.Stat(s.dir(l.name)); err == nil {
			ids[i].dir = info
		}
	}
	return ids
}

func (s *Source) dir(module string) string {
	return filepath.Join(s.sysfs, "module", module)
}
