// SPDX-License-Identifier: Apache-2.0

// Package packer makes packs: of ELF files of kernels, which it finds in the places of
// distributions or fetches from a debuginfod server, and of the running kernel.
package packer

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// A Job is a pack to be made of one build.
type Job struct {
	// Debug is the ELF file with the debug information, which is all that is needed if it has
	// the code as well.
	Debug string

	// Loaded is the file of a module that the kernel loads, stripped. Its symbols count if Debug
	// is debug information alone. Empty if there is none.
	Loaded string

	// CheckLoaded says to compare the build ids of both, which takes long if Loaded is compressed.
	CheckLoaded bool

	// BuildID and Release are what the build must have, empty for any.
	BuildID, Release string
}

// Options say how packs are made.
type Options struct {
	Dir         string // where they go; it is created
	SymbolsOnly bool   // leave functions and lines out

	// Progress is told how many bytes of files there are, and are done; nil for nobody. It is
	// called from several goroutines.
	Progress Progress
}

// Progress shows how far something is.
type Progress interface {
	Grow(bytes int64)
	Add(bytes int64)
}

// A Result says what was made.
type Result struct {
	Packs        int
	Bytes        int64
	WithoutLines int // packs that have symbols only, as there was no debug information
	WithoutCode  int // modules that need no pack
	Kept         int // packs with lines that symbols alone do not replace
}

// large is the size in bytes from which on files are worked on alone, and atOnce the number of
// smaller ones at a time: they take less memory than a vmlinux.
const (
	large  = 64 << 20
	atOnce = 4
)

// gcPercent is how much garbage, in percent of what is in use, there may be while a large file is
// worked on. With the usual 100 a vmlinux takes 190 MB instead of 165.
const gcPercent = 60

// Run makes packs. It goes on after one that cannot be made; the error tells of all of these. If
// ctx is done, it begins no further one.
func Run(ctx context.Context, jobs []Job, o Options) (Result, error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return Result{}, err
	}
	type sized struct {
		Job
		size int64
	}
	list := make([]sized, len(jobs))
	for i, job := range jobs {
		list[i] = sized{job, sizeOf(job.Debug)}
		o.grow(list[i].size)
	}
	slices.SortStableFunc(list, func(a, b sized) int { return cmp.Compare(b.size, a.size) })
	alone := slices.IndexFunc(list, func(s sized) bool { return s.size < large })
	if alone < 0 {
		alone = len(list)
	}
	var c collector
	usual := debug.SetGCPercent(gcPercent)
	for _, job := range list[:alone] {
		if ctx.Err() == nil {
			c.add(o.run(job.Job, job.size))
		}
	}
	debug.SetGCPercent(usual)
	queue := make(chan sized)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), atOnce) {
		workers.Go(func() {
			for job := range queue {
				c.add(o.run(job.Job, job.size))
			}
		})
	}
	for _, job := range list[alone:] {
		if ctx.Err() == nil {
			queue <- job
		}
	}
	close(queue)
	workers.Wait()
	return c.result, errors.Join(append(c.errs, ctx.Err())...)
}

func sizeOf(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0 // opening it says why
	}
	return info.Size()
}

// A collector adds results up.
type collector struct {
	mu     sync.Mutex
	result Result
	errs   []error
}

func (c *collector) add(r Result, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.Packs += r.Packs
	c.result.Bytes += r.Bytes
	c.result.WithoutLines += r.WithoutLines
	c.result.WithoutCode += r.WithoutCode
	c.result.Kept += r.Kept
	if err != nil {
		c.errs = append(c.errs, err)
	}
}

func (o *Options) grow(bytes int64) {
	if o.Progress != nil {
		o.Progress.Grow(bytes)
	}
}

func (o *Options) add(bytes int64) {
	if o.Progress != nil {
		o.Progress.Add(bytes)
	}
}

// placing is held while a pack gets its name: of two of one build, the one with lines stays.
var placing sync.Mutex

// write writes a pack under its name, which nobody sees before it is whole. One without lines
// does not replace one of the same build that has some.
func (o *Options) write(id string, data []byte, hasLines bool) (Result, error) {
	f, err := os.CreateTemp(o.Dir, "."+id+"-*")
	if err != nil {
		return Result{}, err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	placing.Lock()
	defer placing.Unlock()
	name := filepath.Join(o.Dir, id+pack.Ext)
	if err == nil && !hasLines && linesIn(name, id) {
		return Result{Kept: 1}, os.Remove(f.Name())
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return Result{}, errors.Join(err, os.Remove(f.Name()))
	}
	return Result{Packs: 1, Bytes: int64(len(data))}, nil
}

// linesIn reports whether a file is a pack of a build that has lines.
func linesIn(name, id string) bool {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	p, err := pack.Read(f, info.Size())
	return err == nil && p.Info().BuildID == id && p.HasLines()
}
