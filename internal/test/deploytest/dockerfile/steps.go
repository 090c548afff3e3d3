// SPDX-License-Identifier: Apache-2.0

package dockerfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// run runs a command with the tools of this machine, and with its Go caches in place of the image's
// cache mounts.
func (i *Image) run(step Instruction) error {
	for _, mount := range step.Flags["mount"] {
		if !strings.HasPrefix(mount, "type=cache,") {
			return fmt.Errorf("RUN --mount=%s is not supported here", mount)
		}
	}
	cmd := exec.Command("sh", "-ec", step.Args) //nolint:noctx // no test waits for it only
	cmd.Dir = i.path(".")
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		switch {
		case name == "PATH", name == "HOME":
		case name == "GOFLAGS" || !strings.HasPrefix(name, "GO"):
			continue // such as the variables of the make that runs this test
		}
		cmd.Env = append(cmd.Env, pair)
	}
	cmd.Env = append(cmd.Env, i.args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", step.Args, err, out)
	}
	return nil
}

// copy copies files from another stage, or from the context without the files that .dockerignore
// names.
func (b *build) copy(to *Image, step Instruction) error {
	files := strings.Fields(step.Args)
	destination, files := files[len(files)-1], files[:len(files)-1]
	source := func(name string) string { return path.Join(b.context, name) }
	var ignored map[string]bool
	if from := step.Flags["from"]; from != nil {
		stage := b.names[from[0]]
		if stage == nil {
			return fmt.Errorf("no stage %s", from[0])
		}
		source = stage.source
	} else {
		var err error
		if ignored, err = readIgnored(path.Join(b.context, ".dockerignore")); err != nil {
			return err
		}
	}
	if len(files) > 1 && !strings.HasSuffix(destination, "/") {
		return errors.New("several files are copied to something other than a directory")
	}
	for _, file := range files {
		from, target := source(file), to.path(destination)
		info, err := os.Stat(from)
		if err != nil {
			return err
		}
		if !info.IsDir() && strings.HasSuffix(destination, "/") {
			target = path.Join(target, path.Base(file))
		}
		if err := copyTree(from, target, ignored); err != nil {
			return err
		}
	}
	return nil
}

// readIgnored reads names of files and directories in the context. It does not support patterns.
func readIgnored(file string) (map[string]bool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	ignored := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.ContainsAny(line, "*?!#") {
			return nil, fmt.Errorf("%s: %q is not supported here", file, line)
		}
		ignored[line] = true
	}
	return ignored, nil
}

func copyTree(from, to string, ignored map[string]bool) error {
	return filepath.WalkDir(from, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		if ignored[name] {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		target := filepath.Join(to, name)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		return copyFile(file, target)
	})
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(path.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, content, info.Mode())
}
