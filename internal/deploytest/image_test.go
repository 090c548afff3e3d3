package deploytest

import (
	"debug/elf"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const repository = "../.."

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

var built struct {
	once  sync.Once
	dir   string
	image *image
	err   error
}

// buildImage does what the Dockerfile says, once.
func buildImage(t *testing.T) *image {
	t.Helper()
	if testing.Short() {
		t.Skip("building the image takes a minute")
	}
	list := readDockerfile(t, repository+"/deploy/Dockerfile")
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "image"); built.err != nil { //nolint:usetesting // for all tests
			return
		}
		d := &dockerfile{context: repository, dir: built.dir, names: make(map[string]*image)}
		for _, i := range list {
			if built.err = d.apply(i); built.err != nil {
				return
			}
		}
		built.image = d.stages[len(d.stages)-1]
	})
	require.NoError(t, built.err)
	return built.image
}

// TestImage builds the image and looks at what is in it.
func TestImage(t *testing.T) {
	image := buildImage(t)
	var files []string
	require.NoError(t, filepath.WalkDir(image.root, func(file string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, strings.TrimPrefix(file, image.root))
		}
		return err
	}))
	assert.Equal(t, []string{"/etc/ssl/certs/ca-certificates.crt", "/kernelsym", "/otelcol-kernelsym"}, files)
	for _, program := range []string{"/kernelsym", "/otelcol-kernelsym"} {
		f, err := elf.Open(path.Join(image.root, program))
		require.NoError(t, err)
		for _, header := range f.Progs {
			assert.NotEqual(t, elf.PT_INTERP, header.Type, "%s is not static: there is no other file in the image", program)
		}
		require.NoError(t, f.Close())
	}
	assert.Regexp(t, `^[1-9]\d*:[1-9]\d*$`, image.user, "runAsNonRoot believes numbers only")
	assert.Contains(t, files, image.entrypoint[0])
}

// TestImageHasTheGoOfTheModule verifies that the compiler is new enough.
func TestImageHasTheGoOfTheModule(t *testing.T) {
	module, err := os.ReadFile(repository + "/go.mod")
	require.NoError(t, err)
	wanted := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	require.NotNil(t, wanted)
	for _, i := range readDockerfile(t, repository+"/deploy/Dockerfile") {
		if i.name == "FROM" && strings.HasPrefix(i.args, "golang") {
			assert.Equal(t, "golang:"+string(wanted[1])+" AS build", i.args)
			return
		}
	}
	t.Error("no stage with Go")
}
