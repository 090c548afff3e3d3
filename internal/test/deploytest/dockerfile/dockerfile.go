// SPDX-License-Identifier: Apache-2.0

// Package dockerfile builds images as their Dockerfiles say, without Docker: with the tools and the Go caches of this
// machine. It supports what deploy/Dockerfile needs, and fails for everything else.
package dockerfile

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
)

// An Instruction is a line of a Dockerfile.
type Instruction struct {
	Name  string
	Flags map[string][]string // "from", "mount"
	Args  string
}

// Read returns the instructions of a Dockerfile. It does not support here documents or escapes, and supports variables
// only where a shell or the builder expands them.
func Read(file string) (list []Instruction, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	joined := strings.ReplaceAll(string(text), "\\\n", " ")
	for line := range strings.Lines(joined) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, args, _ := strings.Cut(line, " ")
		if name != "RUN" && strings.Contains(strings.Replace(line, "--platform=$BUILDPLATFORM", "", 1), "$") {
			return nil, fmt.Errorf("%s: variables are not expanded here: %s", file, line)
		}
		i := Instruction{Name: name, Flags: make(map[string][]string)}
		for args = strings.TrimSpace(args); strings.HasPrefix(args, "--"); {
			flag, rest, _ := strings.Cut(args, " ")
			key, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
			i.Flags[key] = append(i.Flags[key], value)
			args = strings.TrimSpace(rest)
		}
		i.Args = args
		list = append(list, i)
	}
	return list, nil
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
	list, err := Read(file)
	if err != nil {
		return nil, err
	}
	b := &build{context: context, dir: dir, arch: arch, names: make(map[string]*Image)}
	for _, i := range list {
		if err := b.apply(i); err != nil {
			return nil, err
		}
	}
	return b.stages[len(b.stages)-1], nil
}

// A build is a build in progress.
type build struct {
	context, dir string // directories
	arch         string // architecture that the image is for
	stages       []*Image
	names        map[string]*Image
}

// apply does what an instruction says. It fails for everything that it does not support.
func (b *build) apply(i Instruction) error {
	if i.Name == "FROM" {
		return b.from(strings.Fields(i.Args))
	}
	stage := b.stages[len(b.stages)-1]
	switch i.Name {
	case "ARG":
		for name := range strings.FieldsSeq(i.Args) {
			value, ok := map[string]string{"TARGETOS": "linux", "TARGETARCH": b.arch}[name]
			if !ok {
				return fmt.Errorf("ARG %s is not supported here", name)
			}
			stage.args = append(stage.args, name+"="+value)
		}
		return nil
	case "WORKDIR":
		stage.workdir = path.Join(stage.workdir, i.Args)
		if path.IsAbs(i.Args) {
			stage.workdir = i.Args
		}
		return os.MkdirAll(stage.path("."), 0o755)
	case "COPY":
		return b.copy(stage, i)
	case "RUN":
		return stage.run(i)
	case "LABEL":
		return stage.label(i.Args)
	case "USER":
		stage.User = i.Args
		return nil
	case "ENTRYPOINT":
		return json.Unmarshal([]byte(i.Args), &stage.Entrypoint)
	case "CMD":
		return json.Unmarshal([]byte(i.Args), &stage.Cmd)
	}
	return fmt.Errorf("%s is not supported here", i.Name)
}

// from begins a stage.
func (b *build) from(args []string) error {
	root, err := os.MkdirTemp(b.dir, "stage")
	if err != nil {
		return err
	}
	if err := os.Chmod(root, 0o755); err != nil { //nolint:gosec // others look into it
		return err
	}
	stage := &Image{Root: root, host: args[0] != "scratch", workdir: "/"}
	if b.names[args[0]] != nil {
		return fmt.Errorf("stages based on other stages are not supported here: %s", args[0])
	}
	if len(args) == 3 {
		b.names[args[2]] = stage
	}
	b.stages = append(b.stages, stage)
	return nil
}

var label = regexp.MustCompile(`^([a-z.]+)="([^"]*)"\s*`)

// label adds the labels of an instruction, each as name="value".
func (i *Image) label(args string) error {
	if i.Labels == nil {
		i.Labels = make(map[string]string)
	}
	for args != "" {
		match := label.FindStringSubmatch(args)
		if match == nil {
			return fmt.Errorf("LABEL %s is not supported here", args)
		}
		i.Labels[match[1]], args = match[2], args[len(match[0]):]
	}
	return nil
}

// path returns the path of a file of an image on this machine.
func (i *Image) path(name string) string {
	if !path.IsAbs(name) {
		name = path.Join(i.workdir, name)
	}
	return path.Join(i.Root, name)
}

// source returns the file to copy from. A file of the base image is taken from this machine.
func (i *Image) source(name string) string {
	file := i.path(name)
	if _, err := os.Lstat(file); err != nil && i.host && path.IsAbs(name) {
		return name
	}
	return file
}
