// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// measure makes the packs of a kernel, and prints what they cost and how large they are.
func measure(ctx context.Context, tool, root string) error {
	names, err := filepath.Glob(filepath.Join(root, "usr/lib/debug/boot/vmlinux-*"))
	if err != nil || len(names) != 1 {
		return fmt.Errorf("not one vmlinux in %s/usr/lib/debug/boot (%w)", root, err)
	}
	release := strings.TrimPrefix(filepath.Base(names[0]), "vmlinux-")
	fmt.Printf("=== kernel %s\n", release)
	dir, err := os.MkdirTemp("", "kernelsym-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	core, err := runTool(ctx, tool, filepath.Join(dir, "core"), names[0])
	if err != nil {
		return err
	}
	kerneltest.Figure("pack_vmlinux_bytes %d", core.bytes)
	kerneltest.Figure("pack_build_cpu_s %.2f", core.cpu.Seconds())
	kerneltest.Figure("pack_build_rss_bytes %d", core.rss)
	symbols, err := runTool(ctx, tool, filepath.Join(dir, "symbols"), "--symbols", names[0])
	if err != nil {
		return err
	}
	kerneltest.Figure("pack_symbols_bytes %d", symbols.bytes)
	files, err := modules(filepath.Join(root, "usr/lib/debug/lib/modules", release))
	if err != nil {
		return err
	}
	all, err := runTool(ctx, tool, filepath.Join(dir, "modules"), files...)
	if err != nil {
		return err
	}
	kerneltest.Figure("pack_modules_bytes %d of %d modules", all.bytes, len(files))
	kerneltest.Figure("pack_modules_cpu_s %.2f", all.cpu.Seconds())
	kerneltest.Figure("pack_modules_rss_bytes %d", all.rss)
	return lookUp(filepath.Join(dir, "core"))
}

// modules returns the modules below a directory.
func modules(dir string) (files []string, err error) {
	err = filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".ko") {
			files = append(files, name)
		}
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no modules in %s", dir)
	}
	return files, err
}

// usage has the resources that a run of the tool used, and how much it wrote.
type usage struct {
	cpu   time.Duration
	rss   int64 // peak, in bytes
	bytes int64
}

// runTool makes packs in a directory.
func runTool(ctx context.Context, tool, dir string, args ...string) (u usage, err error) {
	cmd := exec.CommandContext(ctx, tool, append([]string{"pack", "-d", dir}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return u, fmt.Errorf("kernelsym pack: %w: %s", err, out)
	}
	u.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if u.rss, err = maxRSS(cmd.ProcessState); err != nil {
		return u, err
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		info, infoErr := e.Info()
		if infoErr != nil {
			return u, infoErr
		}
		u.bytes += info.Size()
	}
	return u, err
}

// lookUp measures how long it takes to open the pack in a directory, and to look addresses up in
// it.
func lookUp(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*"+pack.Ext))
	if err != nil || len(names) != 1 {
		return fmt.Errorf("not one pack in %s (%w)", dir, err)
	}
	var p *pack.Pack
	took := best(func() { p, err = kerneltest.OpenPack(names[0]) })
	if err != nil {
		return err
	}
	kerneltest.Figure("pack_open_ms %.1f", float64(took.Microseconds())/1000)

	var addrs []uint32 // one in every 7th row
	i := 0
	for r := range p.Rows() {
		if i++; i%7 == 0 {
			addrs = append(addrs, r.Start+(r.End-r.Start)/2)
		}
	}
	if len(addrs) == 0 {
		return errors.New("a pack without rows")
	}
	frames := make([]pack.Frame, 0, 64)
	all := func() {
		for _, addr := range addrs {
			frames = p.Find(addr, frames[:0])
		}
	}
	ordered := best(all)
	kerneltest.Figure("pack_lookup_allocs %.0f", testing.AllocsPerRun(1, all))
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	kerneltest.Figure("pack_lookup_random_ns %d", best(all).Nanoseconds()/int64(len(addrs)))
	kerneltest.Figure("pack_lookup_ordered_ns %d", ordered.Nanoseconds()/int64(len(addrs)))
	return nil
}

// best returns the shortest CPU time of several calls of f, because other processes disturb them.
func best(f func()) time.Duration {
	shortest := time.Duration(math.MaxInt64)
	for range 11 {
		start := cpu()
		f()
		shortest = min(shortest, cpu()-start)
	}
	return shortest
}
