// SPDX-License-Identifier: Apache-2.0

package packer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kelf"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/sources"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// ErrNothingRunning is returned if nothing is known of the running kernel.
var ErrNothingRunning = errors.New("nothing of the running kernel has both symbols and a build id")

// Running makes packs, with symbols only, of the running core kernel and of its modules, if they
// have a build id. It needs the addresses in kallsyms. The error says which right is missing.
func Running(ctx context.Context, procfs, sysfs string, o Options) (Result, error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return Result{}, err
	}
	from := sources.Everything(procfs, sysfs)
	from.BPF.Enabled = false
	snapshot, missing := symcache.Load(ctx, sources.List(from)...)
	release, err := os.ReadFile(filepath.Join(procfs, "sys/kernel/osrelease"))
	if err != nil {
		return Result{}, err
	}
	c := collector{}
	for _, table := range snapshot.Tables() {
		for _, m := range table.Loaded() {
			if m.IsFunction() || !pack.IsBuildID(m.BuildID()) || m.Len() == 0 {
				continue
			}
			c.add(o.running(m, strings.TrimSpace(string(release))))
		}
	}
	if missing == nil && c.result.Packs+c.result.Kept == 0 && c.errs == nil {
		missing = ErrNothingRunning
	}
	return c.result, errors.Join(append(c.errs, missing)...)
}

// running makes the pack of an image.
func (o *Options) running(m *timeline.Image, release string) (Result, error) {
	info := pack.Info{BuildID: m.BuildID(), Name: m.Name(), Arch: runtime.GOARCH, Release: release}
	symbols := kelf.Describe(m, m.Start, &info)
	return o.writeSymbols(info, symbols)
}

// writeSymbols writes a pack that has only symbols.
func (o *Options) writeSymbols(info pack.Info, symbols []pack.Symbol) (Result, error) {
	data, err := encode(pack.NewWriter(info), symbols)
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", info.Name, err)
	}
	return o.write(info.BuildID, data, false)
}
