// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// moduleChurn loads and unloads modules that do nothing unless they are asked to, one at a time. It
// leaves modules alone that are already loaded. A module stays until the collector has read its
// names. Every third does not stay, and its names are lost.
func moduleChurn() (*churn, error) {
	var names []string
	code := make(map[string]*kerneltest.ModuleCode)
	for _, name := range []string{"veth", "dummy", "ifb", "nlmon", "macvlan"} {
		file, err := kerneltest.LookModule(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(filepath.Join("/sys/module", name)); err == nil {
			continue
		}
		if code[name], err = file.Code(); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil, errors.New("the kernel has no modules that could be loaded")
	}
	return &churn{name: "modules", mayMiss: 0.75, visit: func(ctx context.Context, c *collector, n int) (*visit, error) {
		name := names[n%len(names)]
		await := func() error { return nil }
		if n%3 != 2 {
			known, err := c.namedModules()
			if err != nil {
				return nil, err
			}
			await = func() error { return c.awaitNamedModules(ctx, known+1) }
		}
		return visitModule(name, code[name], await)
	}}, nil
}

// namedModules returns how often the collector has read the names of a module.
func (c *collector) namedModules() (float64, error) {
	return c.metric("updates", `kind="symbols"`, `source="modules"`)
}

// awaitNamedModules waits until namedModules returns at least the given number.
func (c *collector) awaitNamedModules(ctx context.Context, want float64) error {
	return c.Eventually(ctx, "names of a module", func() error {
		known, err := c.namedModules()
		if err == nil && known < want {
			err = fmt.Errorf("of %.0f, not %.0f", known, want)
		}
		return err
	})
}

// visitModule loads a module for a while. Each function of its .text is a place. The padding before
// functions is not: its symbols are not functions.
func visitModule(name string, code *kerneltest.ModuleCode, await func() error) (*visit, error) {
	if err := kerneltest.LoadModule(name); err != nil {
		return nil, err
	}
	base, err := kerneltest.TextOf(name)
	if err != nil {
		return nil, err
	}
	if err := await(); err != nil {
		return nil, errors.Join(err, unloadModule(name))
	}
	const stay = 200 * time.Millisecond
	time.Sleep(stay)
	v := &visit{at: time.Now()}
	time.Sleep(stay)
	for _, f := range code.Functions {
		if strings.HasPrefix(f.Name, "__pfx_") {
			continue
		}
		offset := (f.Start + f.End) / 2
		v.places = append(v.places, place{base + offset, name, func(n string) bool { return code.Has(n, offset) }})
	}
	return v, unloadModule(name)
}

// unloadModule unloads a module. It tries again, because the kernel may still be using the module.
func unloadModule(name string) (err error) {
	for range 100 {
		if err = kerneltest.UnloadModule(name); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("a module of the test stays: %w", err)
}
