// SPDX-License-Identifier: Apache-2.0

// Package sources has the list of all sources of symbols.
package sources

import (
	"time"

	"go.uber.org/zap"

	"github.com/kernelsym/kernelsym/internal/bpfprog"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/kmod"
	"github.com/kernelsym/kernelsym/internal/locate"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/realtime"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// Options are the settings of the sources. Equal options make equal sources, so processors with
// the same options share a cache.
type Options struct {
	Procfs, Sysfs string // where /proc and /sys are mounted
	Modules       Modules
	BPF           BPF
	History       timeline.Limits

	// Locate says that the core kernel is located while it hides its symbols (see contract 10.5). It needs packs.
	Locate bool
}

// Modules are the options of loadable modules.
type Modules struct {
	Enabled bool
	Settle  time.Duration // how long to wait for further changes after one
}

// BPF are the options of BPF programs and trampolines.
type BPF struct {
	Enabled, SourceLines, Trampolines bool
}

// Everything returns options with all sources of names, and no history.
func Everything(procfs, sysfs string) Options {
	return Options{
		Procfs: procfs, Sysfs: sysfs,
		Modules: Modules{Enabled: true}, BPF: BPF{Enabled: true, SourceLines: true, Trampolines: true},
	}
}

// List returns the sources. The source of the core kernel comes first.
func List(o Options) []symcache.Source {
	return listFrom(kallsyms.NewSource(o.Procfs, o.Sysfs, nil), o)
}

// ListLocating is List with the packs for Options.Locate.
func ListLocating(o Options, packs locate.Packs) []symcache.Source {
	if !o.Locate {
		return List(o)
	}
	return listFrom(kallsyms.NewSource(o.Procfs, o.Sysfs, locate.NewLocator(o.Procfs, packs)), o)
}

// listFrom returns the source of the core kernel and the others.
func listFrom(core *kallsyms.Source, o Options) []symcache.Source {
	list := []symcache.Source{core}
	if o.BPF.Enabled {
		list = append(list, bpfprog.NewSource(bpfprog.Options{
			Procfs: o.Procfs, Sysfs: o.Sysfs,
			SourceLines: o.BPF.SourceLines, Trampolines: o.BPF.Trampolines,
			History: o.History,
		}))
	}
	if o.Modules.Enabled {
		list = append(list, kmod.NewSource(o.Procfs, o.Sysfs, o.Modules.Settle, o.History))
	}
	return list
}

// ListOn is ListLocating on the operating system goos: on any other system than Linux, it logs why it
// returns no sources.
func ListOn(goos string, o Options, packs locate.Packs, logger *zap.Logger) []symcache.Source {
	if goos != "linux" {
		logger.Warn("Kernel frames get no names: this is not Linux", zap.String("os", goos))
		return nil
	}
	return ListLocating(o, packs)
}

// NewClock returns the tracker that converts Unix times to the clock of the sources.
func NewClock() *realtime.Tracker { return realtime.NewTracker(keepClock, readClock) }

// keepClock is how long steps of the wall clock are kept. A history can be longer: for times
// before a forgotten step, only the core kernel is certain.
const keepClock = time.Hour

// readClock reads the clock of the sources, and the difference of the wall clock.
func readClock() realtime.Reading {
	boot, offset, err := perfring.Boottime.UnixOffset()
	return realtime.Reading{Boot: boot, Offset: offset, Error: err}
}
