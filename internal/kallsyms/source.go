// SPDX-License-Identifier: Apache-2.0

package kallsyms

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A Source publishes the symbols of the core kernel. They do not change while
// the kernel runs, so it reads them once.
type Source struct {
	procfs, sysfs string
	locator       Locator         // nil if the kernel must not be located
	located       *timeline.Image // the core kernel where it was located; nil before
	mislocated    bool            // the list has shown that it was not there
	whole         *timeline.Table // nil until the symbols and the build id have been read
}

// A Locator finds out where the core kernel is while the kernel hides it (see contract 10.5). It returns the core kernel with
// the symbols of a pack of that build id, which is empty if it is not known. Its error, without addresses, says why it could
// not.
type Locator interface {
	Locate(ctx context.Context, buildID string) (*timeline.Image, error)
}

// NewSource returns a source that reads kallsyms below procfs, the directory where /proc is
// mounted, and the build id below sysfs. If locator is not nil, it is asked where the kernel hides its symbols.
func NewSource(procfs, sysfs string, locator Locator) *Source {
	return &Source{procfs: procfs, sysfs: sysfs, locator: locator}
}

// Name returns "kallsyms".
func (*Source) Name() string { return "kallsyms" }

// retryBuildID is the time between two attempts to read a missing build id, and retryHidden between two attempts to read the
// list while the kernel is located.
const (
	retryBuildID = 10 * time.Second
	retryHidden  = time.Minute
)

// The errors about a kernel that is, or was, located.
var (
	ErrLocated = errors.New("names of the core kernel come from a pack, and there are none of modules, " +
		"nor of BPF code that was loaded before the start")
	ErrMislocated = errors.New("the kernel was not where it was located: names of the core kernel were wrong " +
		"until the list of its symbols could be read")
)

// Run publishes the core kernel's symbols and waits until ctx is done. Without a build id it
// publishes them as degraded, and again once the build id can be read. While the kernel hides them, it
// publishes, as degraded, the image that the locator returns. Its errors come from [ParseCore], from the locator, or
// from opening and reading the file. Only one goroutine at a time may call it.
func (s *Source) Run(ctx context.Context, publish func(symcache.Update)) error {
	for ctx.Err() == nil && s.whole == nil {
		id, degraded := s.buildID()
		core, err := s.load(id)
		switch {
		case s.locator != nil && IsHidden(err):
			err = s.runLocated(ctx, id, err, publish)
			if err != nil {
				return err
			}
		case err != nil:
			return err
		case degraded != nil:
			publish(symcache.Update{Table: timeline.NewTable(core), Degraded: degraded})
			s.waitForBuildID(ctx)
		default:
			s.whole = timeline.NewTable(core)
		}
	}
	if ctx.Err() == nil {
		publish(s.check())
		<-ctx.Done()
	}
	return nil
}

// waitForBuildID waits until the build id can be read.
func (s *Source) waitForBuildID(ctx context.Context) {
	for _, err := s.buildID(); err != nil && sleep(ctx, retryBuildID); {
		_, err = s.buildID()
	}
}

// runLocated publishes the symbols of the kernel where it is located, and waits until the list can be read. hidden says why
// it cannot.
func (s *Source) runLocated(ctx context.Context, buildID string, hidden error, publish func(symcache.Update)) error {
	if s.located == nil {
		var err error
		if s.located, err = s.locator.Locate(ctx, buildID); err != nil {
			return fmt.Errorf("%w; it was not located: %w", hidden, err)
		}
	}
	publish(symcache.Update{Table: timeline.NewTable(s.located), Degraded: fmt.Errorf("%w: %w", ErrLocated, hidden)})
	for IsHidden(hidden) && sleep(ctx, retryHidden) {
		_, hidden = s.load(buildID)
	}
	return nil
}

// check returns the update with the symbols of the list. If the kernel was located, the list says whether it was right.
func (s *Source) check() symcache.Update {
	u := symcache.Update{Table: s.whole}
	if s.located != nil && s.located.Base() != s.whole.Loaded()[0].Base() {
		s.located = nil // it is counted once
		s.mislocated = true
		u.Changes.Counts.Mislocated = 1
	}
	if s.mislocated {
		u.Degraded = ErrMislocated
	}
	return u
}

// IsHidden reports whether an error of reading the symbols says that the kernel hides them.
func IsHidden(err error) bool {
	return errors.Is(err, ErrRestricted) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
}

// sleep waits for a time. It returns false if ctx is done before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (s *Source) load(buildID string) (*timeline.Image, error) {
	f, err := os.Open(filepath.Join(s.procfs, "kallsyms"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	core, err := ParseCore(f, runtime.GOARCH, buildID, buildid.FileID(buildID))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return core, nil
}

// buildID returns the running kernel's build id. The error says what frames lack without it.
func (s *Source) buildID() (string, error) {
	id, err := buildid.OfKernel(s.sysfs)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("kernel frames get no build id and no file ID: %w: check that sysfs is mounted there", err)
	}
	if err != nil {
		return "", fmt.Errorf("kernel frames get no build id and no file ID: %w", err)
	}
	return id, nil
}
