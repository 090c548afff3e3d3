// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packer"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packview"
	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// buildFlags are the flags by which a user states which builds wrote a text.
type buildFlags struct {
	ids      []string
	thisBoot bool
}

func (f *buildFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.ids, "build-id", nil, "build ID of the kernel that wrote the text, or of one of its modules (repeatable)")
	cmd.Flags().BoolVar(&f.thisBoot, "this-boot", false, "the running kernel wrote the text, with the modules that are loaded now")
}

// check validates the flags. hasText reports whether the text is of another machine.
func (f *buildFlags) check(p *packview.Packs, hasText bool) error {
	switch {
	case p == nil && (f.thisBoot || len(f.ids) > 0):
		return errors.New("--build-id and --this-boot need --pack")
	case f.thisBoot && (hasText || len(f.ids) > 0):
		return errors.New("--this-boot excludes --build-id and --text")
	}
	for _, id := range f.ids {
		if !pack.IsBuildID(id) {
			return fmt.Errorf("--build-id is %q: it takes 16 to 64 hexadecimal digits in lower case", id)
		}
	}
	return nil
}

// statedBuilds returns the build of an image, empty if the user has not stated it.
type statedBuilds func(image string) string

// stated returns the builds that the flags state. Each of them must have a pack.
func (f *buildFlags) stated(p *packview.Packs, sysfs string) (statedBuilds, error) {
	if f.thisBoot {
		return runningBuilds(sysfs)
	}
	builds := make(map[string]string)
	for _, id := range f.ids {
		image, err := p.Named(id)
		if err != nil {
			return nil, err
		}
		name := image.Pack.Info().Name
		if other := builds[name]; other != "" && other != id {
			return nil, fmt.Errorf("--build-id has two builds of %s: %s and %s", name, other, id)
		}
		builds[name] = id
	}
	return func(image string) string { return builds[image] }, nil
}

// runningBuilds returns the builds that run here. A module that was another build when an earlier line was read has none.
func runningBuilds(sysfs string) (statedBuilds, error) {
	core, err := packer.RunningBuild(sysfs, "")
	if err == nil && core == "" {
		err = fmt.Errorf("no build id in %s: check that sysfs is mounted there", sysfs)
	}
	if err != nil {
		return nil, err
	}
	earlier := make(map[string]string)
	return func(image string) string {
		if image == timeline.KernelName {
			return core
		}
		id, err := packer.RunningBuild(sysfs, image)
		if err != nil || id == "" || earlier[image] != "" && earlier[image] != id {
			return ""
		}
		earlier[image] = id
		return id
	}, nil
}
