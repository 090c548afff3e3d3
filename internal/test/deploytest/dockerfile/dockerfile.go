// SPDX-License-Identifier: Apache-2.0

// Package dockerfile runs the steps of Dockerfiles without Docker: with the tools and the Go caches of this machine.
// BuildKit's parser and linter read them. Steps that deploy/Dockerfile does not have fail.
package dockerfile

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// Read returns the stages of a Dockerfile. Warnings are errors.
func Read(file string) ([]instructions.Stage, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	parsed, err := parser.Parse(f)
	if err != nil {
		return nil, err
	}
	var warnings []error
	for _, w := range parsed.Warnings {
		warnings = append(warnings, errors.New(w.Short))
	}
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, message string, _ []parser.Range) {
		warnings = append(warnings, fmt.Errorf("%s: %s", rule, message))
	}})
	stages, _, err := instructions.Parse(parsed.AST, lint)
	return stages, errors.Join(append(warnings, err)...)
}

// An Image is the result of a stage of a Dockerfile.
type Image struct {
	Root            string // directory
	User            string
	Entrypoint, Cmd []string
	Labels          map[string]string

	host    bool // its base image is not here: this machine's files stand in for it
	workdir string
	args    []string // NAME=VALUE, the environment of commands
}

// Build returns the image of the last stage of a Dockerfile, for an architecture. The files of its stages are in new
// directories in dir.
func Build(file, context, dir, arch string) (*Image, error) {
	stages, err := Read(file)
	if err != nil {
		return nil, err
	}
	b := build{context: context, arch: arch, images: make(map[string]*Image)}
	for _, stage := range stages {
		if b.images[stage.Name], err = b.stage(dir, stage); err != nil {
			return nil, err
		}
	}
	return b.images[stages[len(stages)-1].Name], nil
}

// A build is a build in progress.
type build struct {
	context string // directory
	arch    string // architecture that the image is for
	images  map[string]*Image
}

func (b *build) stage(dir string, stage instructions.Stage) (*Image, error) {
	root, err := os.MkdirTemp(dir, "stage")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(root, 0o755); err != nil { //nolint:gosec // others look into it
		return nil, err
	}
	if b.images[stage.BaseName] != nil {
		return nil, fmt.Errorf("stages based on other stages are not supported here: %s", stage.BaseName)
	}
	image := &Image{Root: root, host: stage.BaseName != "scratch", workdir: "/", Labels: make(map[string]string)}
	for _, step := range stage.Commands {
		if e, ok := step.(instructions.SupportsSingleWordExpansion); ok {
			if err := e.Expand(image.expand); err != nil {
				return nil, err
			}
		}
		if err := b.apply(image, step); err != nil {
			return nil, fmt.Errorf("%s: %w", step, err)
		}
	}
	return image, nil
}

// expand replaces the variables of a word.
func (i *Image) expand(word string) (string, error) {
	text, missing, err := shell.NewLex('\\').ProcessWord(word, shell.EnvsFromSlice(i.args))
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%s has no value here", word)
	}
	return text, err
}

// apply does what a step says.
func (b *build) apply(image *Image, step instructions.Command) error {
	switch step := step.(type) {
	case *instructions.ArgCommand:
		for _, arg := range step.Args {
			value, ok := map[string]string{"TARGETOS": "linux", "TARGETARCH": b.arch}[arg.Key]
			if !ok {
				return fmt.Errorf("%s has no value here", arg.Key)
			}
			image.args = append(image.args, arg.Key+"="+value)
		}
	case *instructions.WorkdirCommand:
		image.workdir = image.in(step.Path)
		return os.MkdirAll(image.Root+image.workdir, 0o755)
	case *instructions.CopyCommand:
		return b.copy(image, step)
	case *instructions.RunCommand:
		return image.run(step)
	case *instructions.LabelCommand:
		for _, label := range step.Labels {
			image.Labels[label.Key] = label.Value
		}
	case *instructions.UserCommand:
		image.User = step.User
	case *instructions.EntrypointCommand:
		image.Entrypoint = step.CmdLine
	case *instructions.CmdCommand:
		image.Cmd = step.CmdLine
	default:
		return errors.ErrUnsupported
	}
	return nil
}

// in returns the absolute path of a file in an image.
func (i *Image) in(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(i.workdir, name)
}

// run runs a command with the tools of this machine, and with its Go caches in place of the image's
// cache mounts.
func (i *Image) run(step *instructions.RunCommand) error {
	for _, mount := range instructions.GetMounts(step) {
		if mount.Type != instructions.MountTypeCache {
			return errors.ErrUnsupported
		}
	}
	env := slices.DeleteFunc(os.Environ(), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=") // not the variables of the make that runs this test
		return name != "PATH" && name != "HOME" && (name == "GOFLAGS" || !strings.HasPrefix(name, "GO"))
	})
	return execute(i.Root+i.workdir, append(env, i.args...), "sh", "-ec", strings.Join(step.CmdLine, " "))
}

// copy copies files from another stage, or the context without the files that .dockerignore names.
func (b *build) copy(to *Image, step *instructions.CopyCommand) error {
	target := to.Root + to.in(step.DestPath)
	dir := target
	if step.From != "" && !strings.HasSuffix(step.DestPath, "/") {
		dir = path.Dir(target)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if step.From == "" {
		if !slices.Equal(step.SourcePaths, []string{"."}) {
			return errors.ErrUnsupported
		}
		const script = `set -o pipefail; ls -A | tar -c --anchored -X .dockerignore -T - | tar -x -C "$1"`
		return execute(b.context, os.Environ(), "bash", "-ec", script, "copy", target)
	}
	from := b.images[step.From]
	if from == nil {
		return errors.New("no such stage")
	}
	args := []string{"-r", "--"}
	for _, name := range step.SourcePaths {
		file := from.Root + from.in(name)
		if _, err := os.Lstat(file); err != nil && from.host && path.IsAbs(name) {
			file = name
		}
		args = append(args, file)
	}
	return execute(to.Root, os.Environ(), "cp", append(args, target)...)
}

func execute(dir string, env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...) //nolint:noctx // no test waits for it only
	cmd.Dir, cmd.Env = dir, env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %q: %w\n%s", name, args, err, out)
	}
	return nil
}
