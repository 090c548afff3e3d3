// SPDX-License-Identifier: Apache-2.0

package kubernetestest

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/deploytest/dockerfile"
)

const repository = "../../.."

// buildImages builds the images that the pods of this test have, and returns their archives: that of deploy/Dockerfile,
// and one with busybox.
func buildImages(t *testing.T) []string {
	t.Helper()
	ours, err := dockerfile.Build(repository+"/deploy/Dockerfile", repository, t.TempDir(), runtime.GOARCH)
	require.NoError(t, err)
	box := filepath.Join(t.TempDir(), "bin")
	require.NoError(t, os.Mkdir(box, 0o755)) //nolint:gosec // pods of all users run it
	binary, err := os.ReadFile(debianFile("bin/busybox"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(box, "busybox"), binary, 0o755)) //nolint:gosec // likewise
	return []string{
		archive(t, "otelcol-kernelsym:"+version(t), ours),
		archive(t, busybox, &dockerfile.Image{
			Root: filepath.Dir(box), User: "65532:65532", Entrypoint: []string{"/bin/busybox"}, Cmd: []string{"sleep", "1000000"},
		}),
	}
}

// busybox is the name of the image with busybox. Its containers do nothing unless they are told to.
const busybox = "busybox:test"

// archive writes an image to a file that container runtimes import.
func archive(t *testing.T, reference string, image *dockerfile.Image) string {
	t.Helper()
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	require.NoError(t, w.AddFS(os.DirFS(image.Root)))
	require.NoError(t, w.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil })
	require.NoError(t, err)
	result, err := mutate.AppendLayers(empty.Image, layer)
	require.NoError(t, err)
	result, err = mutate.ConfigFile(result, &v1.ConfigFile{
		OS: runtime.GOOS, Architecture: runtime.GOARCH, RootFS: must(result.ConfigFile()).RootFS,
		Config: v1.Config{User: image.User, Entrypoint: image.Entrypoint, Cmd: image.Cmd, Labels: image.Labels},
	})
	require.NoError(t, err)
	tag, err := name.NewTag(reference, name.WithDefaultRegistry("docker.io"))
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), strings.ReplaceAll(reference, ":", "_")+".tar")
	require.NoError(t, tarball.WriteToFile(file, tag, result))
	return file
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
