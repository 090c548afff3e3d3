// SPDX-License-Identifier: Apache-2.0

package deploytest

import (
	"debug/elf"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/kernelsym/kernelsym/internal/test/deploytest/dockerfile"
)

const repository = "../../.."

func TestMain(m *testing.M) {
	code := m.Run()
	if builds.dir != "" {
		_ = os.RemoveAll(builds.dir)
	}
	os.Exit(code)
}

// builds has the images built so far, by architecture.
var builds struct {
	mu  sync.Mutex
	dir string
	all map[string]*build
}

type build struct {
	image *dockerfile.Image
	err   error
}

// readDockerfile returns the stages of our Dockerfile.
func readDockerfile(t *testing.T) []instructions.Stage {
	t.Helper()
	stages, err := dockerfile.Read(repository + "/deploy/Dockerfile")
	require.NoError(t, err)
	return stages
}

// buildImage builds the image for this machine as the Dockerfile says, once.
func buildImage(t *testing.T) *dockerfile.Image {
	t.Helper()
	return buildImageFor(t, runtime.GOARCH)
}

func buildImageFor(t *testing.T, arch string) *dockerfile.Image {
	t.Helper()
	if testing.Short() {
		t.Skip("building the image takes a minute")
	}
	builds.mu.Lock()
	defer builds.mu.Unlock()
	if builds.dir == "" {
		dir, err := os.MkdirTemp("", "image") //nolint:usetesting // for all tests
		require.NoError(t, err)
		builds.dir, builds.all = dir, make(map[string]*build)
	}
	b := builds.all[arch]
	if b == nil {
		b = new(build)
		builds.all[arch] = b
		b.image, b.err = dockerfile.Build(repository+"/deploy/Dockerfile", repository, builds.dir, arch)
	}
	require.NoError(t, b.err)
	return b.image
}

// TestImageForAnotherMachine verifies that the image can be built for another architecture than
// this machine's, because a cluster can have nodes of both.
func TestImageForAnotherMachine(t *testing.T) {
	arch, machine := "arm64", elf.EM_AARCH64
	if runtime.GOARCH == arch {
		arch, machine = "amd64", elf.EM_X86_64
	}
	image := buildImageFor(t, arch)
	for _, program := range []string{"kernelsym", "otelcol-kernelsym"} {
		f, err := elf.Open(path.Join(image.Root, program))
		require.NoError(t, err)
		assert.Equal(t, machine, f.Machine, program)
		require.NoError(t, f.Close())
	}
}

// TestImage verifies which files the image has, and that they can run in it.
func TestImage(t *testing.T) {
	image := buildImage(t)
	var files []string
	require.NoError(t, filepath.WalkDir(image.Root, func(file string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, strings.TrimPrefix(file, image.Root))
		}
		return err
	}))
	assert.Equal(t, []string{"/etc/ssl/certs/ca-certificates.crt", "/kernelsym", "/otelcol-kernelsym"}, files)
	for _, program := range []string{"/kernelsym", "/otelcol-kernelsym"} {
		f, err := elf.Open(path.Join(image.Root, program))
		require.NoError(t, err)
		for _, header := range f.Progs {
			assert.NotEqual(t, elf.PT_INTERP, header.Type, "%s is not static, and the image has no other files", program)
		}
		require.NoError(t, f.Close())
	}
	assert.Regexp(t, `^[1-9]\d*:[1-9]\d*$`, image.User, "runAsNonRoot accepts only numbers")
	assert.Contains(t, files, image.Entrypoint[0])
}

// TestCommandOfTheImage verifies that the manifests begin with the arguments of the image, to which patches can add others.
func TestCommandOfTheImage(t *testing.T) {
	var args []string
	for _, stage := range readDockerfile(t) {
		for _, step := range stage.Commands {
			if c, ok := step.(*instructions.CmdCommand); ok {
				args = c.CmdLine
			}
		}
	}
	require.NotEmpty(t, args)
	for owner, pod := range render(t, "overlays/gateway").pods() {
		assert.Equal(t, args, collectorOf(t, pod.Spec).Args, owner)
	}
}

// TestLabelsOfTheImage verifies that the image has the predefined labels of the OCI image
// specification, and that they agree with builder-config.yaml.
func TestLabelsOfTheImage(t *testing.T) {
	labels := buildImage(t).Labels
	builder, err := os.ReadFile(repository + "/builder-config.yaml")
	require.NoError(t, err)
	var config struct {
		Dist struct {
			Name, Description, Version string
		}
	}
	require.NoError(t, yaml.Unmarshal(builder, &config))
	const home = "https://github.com/kernelsym/kernelsym"
	assert.Equal(t, map[string]string{
		"org.opencontainers.image.title":         config.Dist.Name,
		"org.opencontainers.image.description":   config.Dist.Description,
		"org.opencontainers.image.version":       config.Dist.Version,
		"org.opencontainers.image.source":        home,
		"org.opencontainers.image.documentation": home + "/blob/main/deploy/README.md",
		"org.opencontainers.image.licenses":      "Apache-2.0",
	}, labels)
	assert.Equal(t, version(t), config.Dist.Version)
}

// version returns the version of the source.
func version(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(repository + "/cmd/kernelsym/main.go")
	require.NoError(t, err)
	match := regexp.MustCompile(`(?m)^const version = "(.+)"$`).FindSubmatch(text)
	require.NotNil(t, match)
	return string(match[1])
}

// TestImageHasTheGoOfTheModule verifies that the image is built with the version of Go that the
// module needs.
func TestImageHasTheGoOfTheModule(t *testing.T) {
	module, err := os.ReadFile(repository + "/go.mod")
	require.NoError(t, err)
	wanted := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	require.NotNil(t, wanted)
	assert.Equal(t, "golang:"+string(wanted[1]), readDockerfile(t)[0].BaseName)
}
