// SPDX-License-Identifier: Apache-2.0

// Package packer makes packs from the running kernel, and from ELF files of kernels. It finds the
// files where distributions install them, or fetches them from a debuginfod server.
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

// A Job describes the pack to make of one build.
type Job struct {
	// Debug is the ELF file with the debug information. It is the only file needed if it also has
	// the code.
	Debug string

	// Loaded is the stripped file of a module that the kernel loads, or empty. Its symbols are used
	// if Debug is debug information alone.
	Loaded string

	// CheckLoaded is whether to compare the build ids of both files, which takes long if Loaded is
	// compressed.
	CheckLoaded bool

	// BuildID and Release are required of the build. Empty allows any.
	BuildID, Release string
}

// Options say how packs are made.
type Options struct {
	Dir         string // directory for the packs, created if necessary
	SymbolsOnly bool   // leave out functions and lines

	// Progress receives the number of bytes of all files, and of those processed. It can be nil. It
	// is called from several goroutines.
	Progress Progress
}

// Progress shows the progress of some work.
type Progress interface {
	Grow(bytes int64)
	Add(bytes int64)
}

// A Result counts what was made.
type Result struct {
	Packs        int
	Bytes        int64
	WithoutLines int // packs with symbols only
	WithoutCode  int // modules that need no pack
	Kept         int // existing packs with lines, which symbols alone do not replace
}

// large is the size in bytes from which on a file is processed alone. atOnce is the number of
// smaller files processed at a time, which together take less memory than a vmlinux.
const (
	large  = 64 << 20
	atOnce = 4
)

// gcPercent is the garbage allowed while a large file is processed, in percent of the memory in
// use. With the usual 100, a vmlinux takes 190 MB instead of 165.
const gcPercent = 60

// Run makes packs. If a pack cannot be made, Run goes on with the next job. The error joins the
// errors of all such jobs. After ctx is done, Run starts no further job.
func Run(ctx context.Context, jobs []Job, o Options) (Result, error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return Result{}, err
	}
	type sized struct {
		job  Job
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
			c.add(o.run(job.job, job.size))
		}
	}
	debug.SetGCPercent(usual)
	queue := make(chan sized)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), atOnce) {
		workers.Go(func() {
			for job := range queue {
				c.add(o.run(job.job, job.size))
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
		return 0 // opening the file returns the error
	}
	return info.Size()
}

// A collector sums up results.
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

// placing is held while a pack gets its name, so that of two packs of one build, the one with lines
// remains.
var placing sync.Mutex

// write writes a pack under its name. An incomplete pack is never visible under that name. A pack
// without lines does not replace a pack of the same build that has lines.
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
	r := Result{Packs: 1, Bytes: int64(len(data))}
	if !hasLines {
		r.WithoutLines = 1
	}
	return r, nil
}

// linesIn reports whether a file is a pack of a build, and has lines.
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
