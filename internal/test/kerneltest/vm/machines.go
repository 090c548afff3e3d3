// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// A job runs the tests in one kernel. The output of its machines follows the output of the jobs
// before it.
type job struct {
	name   string
	kernel *kernel
	initrd string
	boots  []*queue // one for each time that all tests are run
	err    error    // why there are no boots
	ended  chan error

	mu      sync.Mutex
	now     bool         // its output is shown at once
	printed bytes.Buffer // output until then
}

// A queue has the packages that the machines of a boot share.
type queue struct {
	*record
	machines int // how many share it

	mu   sync.Mutex
	todo []string
	errs []error
}

// newJob returns the job for a kernel. A machine keeps one CPU busy, so as many machines as there
// are CPUs share the packages. If boots are compared, each uses one machine.
func newJob(name string, k *kernel, initrd string, packages []string, o options) *job {
	j := &job{name: name, kernel: k, initrd: initrd, ended: make(chan error, 1)}
	machines := min(runtime.NumCPU(), len(packages))
	if o.boots > 1 {
		machines = 1
	}
	for range o.boots {
		j.boots = append(j.boots, &queue{
			record: &record{Writer: j, dir: o.out}, machines: machines, todo: slices.Clone(packages),
		})
	}
	return j
}

// runAll runs the machines of all jobs, as many at a time as there are CPUs.
func runAll(ctx context.Context, jobs []*job, o options) {
	free := make(chan struct{}, runtime.NumCPU())
	for _, j := range jobs {
		var machines sync.WaitGroup
		for _, q := range j.boots {
			for range q.machines {
				free <- struct{}{}
				machines.Go(func() {
					defer func() { <-free }()
					q.run(ctx, j, o)
				})
			}
		}
		go func() {
			machines.Wait()
			j.ended <- j.result()
		}()
	}
}

// run runs a machine, if any package is left. A machine that does not boot is started again; a test
// that fails is not.
func (q *queue) run(ctx context.Context, j *job, o options) {
	if q.isEmpty() {
		return
	}
	fmt.Fprintf(j, "=== kernel %s (%s) %s\n", j.name, j.kernel.release, o.append)
	for range 3 {
		err := boot(ctx, j, q, o)
		if !errors.Is(err, errNotBooted) {
			q.ended(err)
			return
		}
		fmt.Fprintf(j, "=== kernel %s: %v\n", j.name, err)
	}
	// Another machine may do its work.
}

// ended records how a machine ended.
func (q *queue) ended(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.errs = append(q.errs, err)
}

func (q *queue) isEmpty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.todo) == 0
}

// next returns the next package to test, or "" if there is none.
func (q *queue) next() (pkg string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.todo) > 0 {
		pkg, q.todo = q.todo[0], q.todo[1:]
	}
	return pkg
}

// print passes the lines of a machine on together, so that the lines of several machines do not
// mix.
func (q *queue) print(lines string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for line := range strings.Lines(lines) {
		_, _ = q.Write([]byte(line))
	}
}

// result returns the errors of a job that has ended.
func (j *job) result() error {
	if j.err != nil {
		return j.err
	}
	var errs []error
	var records []*record
	for _, q := range j.boots {
		errs = append(append(errs, q.errs...), q.err)
		if len(q.todo) > 0 {
			errs = append(errs, fmt.Errorf("not tested: %s", strings.Join(q.todo, " ")))
		}
		records = append(records, q.record)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return compare(records)
}

// Write prints text, or keeps it for later.
func (j *job) Write(text []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.now {
		return os.Stdout.Write(text)
	}
	return j.printed.Write(text)
}

// printNow prints what was kept, and from then on prints at once.
func (j *job) printNow() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.now = true
	_, _ = j.printed.WriteTo(os.Stdout)
}
