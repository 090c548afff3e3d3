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
	whole         *timeline.Table // nil until the symbols and the build id have been read
}

// NewSource returns a source that reads kallsyms below procfs, the directory where /proc is
// mounted, and the build id below sysfs.
func NewSource(procfs, sysfs string) *Source {
	return &Source{procfs: procfs, sysfs: sysfs}
}

// Name returns "kallsyms".
func (*Source) Name() string { return "kallsyms" }

// retryBuildID is the time between two attempts to read a missing build id.
const retryBuildID = 10 * time.Second

// Run publishes the core kernel's symbols and waits until ctx is done. Without a build id it
// publishes them as degraded, and again once the build id can be read. Its errors come from
// [ParseCore], or from opening and reading the file. Only one goroutine at a time may call it.
func (s *Source) Run(ctx context.Context, publish func(symcache.Update)) error {
	id, degraded := s.buildID()
	for ctx.Err() == nil && s.whole == nil {
		core, err := s.load(id)
		if err != nil {
			return err
		}
		table := timeline.NewTable(core)
		if degraded == nil {
			s.whole = table
			break
		}
		publish(symcache.Update{Table: table, Degraded: degraded})
		for degraded != nil {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(retryBuildID):
				id, degraded = s.buildID()
			}
		}
	}
	if ctx.Err() == nil {
		publish(symcache.Update{Table: s.whole})
		<-ctx.Done()
	}
	return nil
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
