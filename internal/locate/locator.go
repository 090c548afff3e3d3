// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/packimage"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// Packs finds packs. The error of Pack says why there is none of a build, or none yet.
type Packs interface {
	Pack(ctx context.Context, buildID string) (*pack.Pack, error)
}

// A Locator locates the running kernel.
type Locator struct {
	procfs string
	packs  Packs
}

// NewLocator returns a Locator that finds what the kernel says below procfs, where /proc is mounted.
func NewLocator(procfs string, packs Packs) *Locator { return &Locator{procfs, packs} }

// The errors of Locate about the pack.
var (
	ErrNoBuildID = errors.New("the build of the running kernel is not known")
	ErrOtherArch = errors.New("the pack is one of another architecture")
)

// Locate returns the image of the running core kernel, whose build id must be the one in /sys/kernel/notes. It takes a
// quarter of a second, or a few seconds on a busy machine, unless there is no pack of that build. Its errors come from [Place],
// [perfring.OpenThread] and the packs. No error has an address in its text.
func (l *Locator) Locate(ctx context.Context, buildID string) (*timeline.Image, error) {
	if buildID == "" {
		return nil, ErrNoBuildID
	}
	p, err := l.packs.Pack(ctx, buildID)
	if err != nil {
		return nil, fmt.Errorf("the pack of %s: %w", buildID, err)
	}
	if p.Info().Arch != runtime.GOARCH {
		return nil, ErrOtherArch
	}
	waits, err := observe(ctx, l.procfs)
	if err != nil {
		return nil, err
	}
	place, err := Place(p, waits)
	if err != nil {
		return nil, err
	}
	core, err := packimage.Located(p, place)
	if err == nil {
		located.Store(core)
	}
	return core, err
}

// located belongs to the process, like the caches of symbols: a receiver has no other way to a processor.
var located atomic.Pointer[timeline.Image]

// Core returns the core kernel as this process has located it last, nil if it has not.
func Core() *timeline.Image { return located.Load() }
