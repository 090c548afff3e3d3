// SPDX-License-Identifier: Apache-2.0

package packer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kelf"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// The errors of debuginfod servers.
var (
	ErrNoServers = errors.New("no debuginfod server: set DEBUGINFOD_URLS to URLs of servers, " +
		"separated by spaces")
	ErrNotServed = errors.New("no server has the file")
	ErrSlow      = errors.New("the server sends too little")
)

// Debuginfod fetches files from servers, as debuginfod(8) specifies.
type Debuginfod struct {
	URLs   []string // of the servers; the first one that has a file is used
	Client *http.Client

	// Patience is the time in which a server must send 100 KiB, again and again, or else the next one is asked. 0 stands
	// for 90 seconds.
	Patience time.Duration
}

// ParseURLs returns the servers in the value of DEBUGINFOD_URLS.
func ParseURLs(value string) ([]string, error) {
	urls := strings.Fields(value)
	if len(urls) == 0 {
		return nil, ErrNoServers
	}
	for _, server := range urls {
		if u, err := url.Parse(server); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("DEBUGINFOD_URLS: %q is not an http or https URL", server)
		}
	}
	return urls, nil
}

// A Build is a build to ask a server for.
type Build struct {
	ID     string
	Module string // name of the module; empty if unknown, and for the core kernel
}

// Run makes the packs of builds, one after the other. It removes each file before it fetches the
// next. If a pack cannot be made, Run goes on with the next build. The error joins the errors of
// all such builds.
func (d *Debuginfod) Run(ctx context.Context, builds []Build, o Options) (Result, error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return Result{}, err
	}
	var c collector
	for _, b := range builds {
		if err := ctx.Err(); err != nil {
			return c.result, errors.Join(append(c.errs, err)...)
		}
		c.add(d.run(ctx, b, o))
	}
	return c.result, errors.Join(c.errs...)
}

// run fetches the debug information of a build and makes its pack.
func (d *Debuginfod) run(ctx context.Context, b Build, o Options) (r Result, err error) {
	if !pack.IsBuildID(b.ID) {
		return r, fmt.Errorf("%q is not a build ID: it must have 16 to 64 lower-case hexadecimal digits", b.ID)
	}
	dir, err := os.MkdirTemp("", "kernelsym-*")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fetched := filepath.Join(dir, b.ID)
	served, err := d.fetch(ctx, b.ID, fetched, &o)
	if err != nil {
		return r, err
	}
	if b.Module == "" {
		b.Module = served
	}
	job := Job{Debug: fetched, BuildID: b.ID}
	if b.Module != "" { // debug information alone gets its module name only from here
		job.Debug = filepath.Join(dir, filepath.Base(b.Module)+".ko")
		if err := os.Rename(fetched, job.Debug); err != nil {
			return r, err
		}
	} else if err := needName(fetched); err != nil {
		return r, err
	}
	size := sizeOf(job.Debug)
	o.grow(size)
	return o.run(job, size)
}

// needName returns an error if the file of a module does not contain the module's name.
func needName(file string) error {
	f, err := kelf.Open(file)
	if err != nil {
		return err
	}
	if id := f.Info().BuildID; f.IsModule() && !hasCode(f) {
		err = fmt.Errorf("build %s: neither the server nor the debug information says what the module is called", id)
	}
	return errors.Join(err, f.Close())
}

// fetch fetches the debug information of a build from the first server that has it. It returns the
// module name that the server gives, or an empty string.
func (d *Debuginfod) fetch(ctx context.Context, id, to string, o *Options) (module string, err error) {
	var errs []error
	for _, server := range d.URLs {
		module, err = d.get(ctx, strings.TrimRight(server, "/")+"/buildid/"+id+"/debuginfo", to, o)
		if err == nil {
			return module, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("build %s: %w: %w", id, ErrNotServed, errors.Join(errs...))
}

// RunningBuilds returns the running core kernel and its modules. Every user can read their build
// ids in sysfs.
func RunningBuilds(sysfs string) (builds []Build, err error) {
	names, err := filepath.Glob(notesOf(sysfs, "*"))
	if err != nil {
		return nil, err
	}
	modules := []string{""}
	for _, name := range names {
		modules = append(modules, filepath.Base(filepath.Dir(filepath.Dir(name))))
	}
	for _, module := range modules {
		id, err := RunningBuild(sysfs, module)
		if err != nil {
			return nil, err
		}
		if id != "" { // otherwise the module was unloaded, or this is not Linux
			builds = append(builds, Build{ID: id, Module: module})
		}
	}
	if len(builds) == 0 {
		return nil, fmt.Errorf("no build id in %s: check that sysfs is mounted there, or name builds with --build-id", sysfs)
	}
	return builds, nil
}

// RunningBuild returns the build id of a loaded module or, for an empty name, of the running core kernel. It is empty if
// that is not loaded.
func RunningBuild(sysfs, module string) (id string, err error) {
	return readBuildID(notesOf(sysfs, module))
}

// notesOf returns the file with the build id of a module, or of the core kernel.
func notesOf(sysfs, module string) string {
	if module == "" {
		return filepath.Join(sysfs, "kernel/notes")
	}
	return filepath.Join(sysfs, "module", module, "notes/.note.gnu.build-id")
}
