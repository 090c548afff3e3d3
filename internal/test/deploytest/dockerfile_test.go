// SPDX-License-Identifier: Apache-2.0

package deploytest

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An instruction is a line of a Dockerfile.
type instruction struct {
	name  string
	flags map[string][]string // "from", "mount"
	args  string
}

// readDockerfile returns the instructions of the Dockerfile. It does not support here documents or
// escapes, and supports variables only where a shell or the builder expands them.
func readDockerfile(t *testing.T) (list []instruction) {
	t.Helper()
	text, err := os.ReadFile(repository + "/deploy/Dockerfile")
	require.NoError(t, err)
	joined := strings.ReplaceAll(string(text), "\\\n", " ")
	for line := range strings.Lines(joined) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, args, _ := strings.Cut(line, " ")
		if name != "RUN" {
			require.NotContains(t, strings.Replace(line, "--platform=$BUILDPLATFORM", "", 1), "$", "variables are not expanded here")
		}
		i := instruction{name: name, flags: make(map[string][]string)}
		for args = strings.TrimSpace(args); strings.HasPrefix(args, "--"); {
			flag, rest, _ := strings.Cut(args, " ")
			key, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
			i.flags[key] = append(i.flags[key], value)
			args = strings.TrimSpace(rest)
		}
		i.args = args
		list = append(list, i)
	}
	return list
}

// An image is the result of a stage of a Dockerfile.
type image struct {
	root    string // directory
	host    bool   // its base image is not here: this machine's files stand in for it
	workdir string

	args []string // NAME=VALUE, the environment of commands

	user            string
	entrypoint, cmd []string
	labels          map[string]string
}

// A dockerfile is a build in progress, without Docker.
type dockerfile struct {
	context, dir string // directories
	arch         string // architecture that the image is for
	stages       []*image
	names        map[string]*image
}

// apply does what an instruction says. It fails for everything that it does not support.
func (d *dockerfile) apply(i instruction) error {
	if i.name == "FROM" {
		return d.from(strings.Fields(i.args))
	}
	stage := d.stages[len(d.stages)-1]
	switch i.name {
	case "ARG":
		for name := range strings.FieldsSeq(i.args) {
			value, ok := map[string]string{"TARGETOS": "linux", "TARGETARCH": d.arch}[name]
			if !ok {
				return fmt.Errorf("ARG %s is not supported here", name)
			}
			stage.args = append(stage.args, name+"="+value)
		}
		return nil
	case "WORKDIR":
		stage.workdir = path.Join(stage.workdir, i.args)
		if path.IsAbs(i.args) {
			stage.workdir = i.args
		}
		return os.MkdirAll(stage.path("."), 0o755)
	case "COPY":
		return d.copy(stage, i)
	case "RUN":
		return stage.run(i)
	case "LABEL":
		return stage.label(i.args)
	case "USER":
		stage.user = i.args
		return nil
	case "ENTRYPOINT":
		return json.Unmarshal([]byte(i.args), &stage.entrypoint)
	case "CMD":
		return json.Unmarshal([]byte(i.args), &stage.cmd)
	}
	return fmt.Errorf("%s is not supported here", i.name)
}

// from begins a stage.
func (d *dockerfile) from(args []string) error {
	root, err := os.MkdirTemp(d.dir, "stage")
	if err != nil {
		return err
	}
	if err := os.Chmod(root, 0o755); err != nil { //nolint:gosec // others look into it
		return err
	}
	stage := &image{root: root, host: args[0] != "scratch", workdir: "/"}
	if d.names[args[0]] != nil {
		return fmt.Errorf("stages based on other stages are not supported here: %s", args[0])
	}
	if len(args) == 3 {
		d.names[args[2]] = stage
	}
	d.stages = append(d.stages, stage)
	return nil
}

var label = regexp.MustCompile(`^([a-z.]+)="([^"]*)"\s*`)

// label adds the labels of an instruction, each as name="value".
func (i *image) label(args string) error {
	if i.labels == nil {
		i.labels = make(map[string]string)
	}
	for args != "" {
		match := label.FindStringSubmatch(args)
		if match == nil {
			return fmt.Errorf("LABEL %s is not supported here", args)
		}
		i.labels[match[1]], args = match[2], args[len(match[0]):]
	}
	return nil
}

// path returns the path of a file of an image on this machine.
func (i *image) path(name string) string {
	if !path.IsAbs(name) {
		name = path.Join(i.workdir, name)
	}
	return path.Join(i.root, name)
}

// source returns the file to copy from. A file of the base image is taken from this machine.
func (i *image) source(name string) string {
	file := i.path(name)
	if _, err := os.Lstat(file); err != nil && i.host && path.IsAbs(name) {
		return name
	}
	return file
}
