// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/internal/test/homes"
)

// build builds the tests of all suites in a directory, with the mutants of the code that docs/contract.md names, and
// returns these mutants.
func build(ctx context.Context, dir string) (mutants []mutant, err error) {
	all, err := homes.Read(".")
	if err != nil {
		return nil, err
	}
	var files []string
	for _, h := range all {
		files = append(files, h.File)
	}
	slices.Sort(files)
	overlay := overlay{dir: dir, Replace: make(map[string]string)}
	for _, file := range slices.Compact(files) {
		isWanted := func(function string) bool {
			return slices.ContainsFunc(all, func(h homes.Home) bool { return h.File == file && h.Has(function) })
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		changed, found, err := instrument(file, source, isWanted, len(mutants)+1)
		if err != nil {
			return nil, err
		}
		pkg := path.Dir(file)
		if err := errors.Join(overlay.add(file, changed), overlay.add(pkg+"/mutant.go", chooser(path.Base(pkg)))); err != nil {
			return nil, err
		}
		mutants = append(mutants, found...)
	}
	return mutants, overlay.build(ctx)
}

// An overlay is files that a build reads in place of others, or beside them. The field is as go build -overlay reads it.
type overlay struct {
	dir     string
	Replace map[string]string
}

// add adds a file, which is named from the root of the repository.
func (o *overlay) add(file string, content []byte) error {
	original, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	o.Replace[original] = filepath.Join(o.dir, strings.ReplaceAll(file, "/", "-"))
	return os.WriteFile(o.Replace[original], content, 0o600)
}

// build builds the tests of all suites.
func (o *overlay) build(ctx context.Context) error {
	config, err := json.Marshal(o)
	if err != nil {
		return err
	}
	file := filepath.Join(o.dir, "overlay.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return err
	}
	args := []string{"test", "-c", "-vet=off", "-overlay", file, "-o", o.dir}
	for _, s := range distinctSuites() {
		args = append(args, "./"+s.pkg)
	}
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("building the tests: %w: %s", err, out)
	}
	return nil
}
