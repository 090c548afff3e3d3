// SPDX-License-Identifier: Apache-2.0

package dockerfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// write writes a file in a context, and returns its name.
func write(t *testing.T, context, name, text string) string {
	t.Helper()
	file := filepath.Join(context, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// TestBuild verifies which files each kind of step copies, and where it expands variables.
func TestBuild(t *testing.T) {
	context := t.TempDir()
	write(t, context, ".dockerignore", "build\n")
	write(t, context, "build/old", "")
	write(t, context, "sub/build/new", "")
	file := write(t, context, "Dockerfile", `FROM golang AS compile
ARG TARGETARCH
WORKDIR /src
COPY . .
RUN cp -r . ../copy && echo $TARGETARCH >arch
FROM scratch
LABEL a="b c"
COPY --from=compile /copy /src/arch /x/
COPY --from=compile /etc/hostname /y
`)
	image, err := Build(file, context, t.TempDir(), "arm64")
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a": "b c"}, image.Labels)
	arch, err := os.ReadFile(image.Root + "/x/arch")
	require.NoError(t, err)
	assert.Equal(t, "arm64\n", string(arch))
	assert.FileExists(t, image.Root+"/x/copy/sub/build/new")
	assert.NoDirExists(t, image.Root+"/x/copy/build")
	assert.FileExists(t, image.Root+"/y", "of this machine, since the base image is not here")
}

func TestErrors(t *testing.T) {
	for steps, want := range map[string]string{
		"FROM scratch as x\nCMD [\"a\"]\n":               "FromAsCasing: ",
		"FROM scratch\nRUN --mount=type=bind,source=a b": errorsUnsupported,
		"FROM scratch\nRUN false":                        "exit status 1",
		"FROM scratch\nENV a=b":                          errorsUnsupported,
		"FROM scratch\nARG OTHER":                        "OTHER has no value here",
		"FROM scratch\nUSER $other":                      "$other has no value here",
		"FROM scratch\nCOPY a b":                         errorsUnsupported,
		"FROM scratch\nCOPY --from=other a b":            "no such stage",
		"FROM scratch AS a\nFROM a":                      "stages based on other stages are not supported here: a",
		"FRO scratch":                                    "unknown instruction",
	} {
		context := t.TempDir()
		_, err := Build(write(t, context, "Dockerfile", steps), context, t.TempDir(), "arm64")
		assert.ErrorContains(t, err, want, steps)
	}
}

const errorsUnsupported = "unsupported operation"
