// SPDX-License-Identifier: Apache-2.0

package releasetest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/blakesmith/ar"
	"github.com/cavaliergopher/cpio"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// modes maps the files of a package to their modes.
type modes map[string]os.FileMode

// collectorFiles are the files of the collector's package.
var collectorFiles = modes{
	"/etc/otelcol-kernelsym/config.yaml":                 0o644,
	"/etc/otelcol-kernelsym/environment":                 0o600,
	"/usr/bin/otelcol-kernelsym":                         0o755,
	"/usr/lib/systemd/system/otelcol-kernelsym.service":  0o644,
	"/usr/share/doc/otelcol-kernelsym/copyright":         0o644,
	"/usr/share/doc/otelcol-kernelsym/no-sys-admin.conf": 0o644,
}

// TestContentsOfPackages compares the files in each package with a list.
func TestContentsOfPackages(t *testing.T) {
	for format, read := range map[string]func(*testing.T, string) modes{"deb": readDeb, "rpm": readRPM} {
		t.Run(format, func(t *testing.T) {
			assert.Equal(t, collectorFiles, read(t, packageFile(t, "otelcol-kernelsym", format)))
			got := read(t, packageFile(t, "kernelsym", format))
			zsh := map[string]string{"deb": "vendor-completions", "rpm": "site-functions"}[format]
			want := modes{
				"/usr/bin/kernelsym": 0o755,
				"/usr/share/bash-completion/completions/kernelsym":    0o644,
				"/usr/share/doc/kernelsym/copyright":                  0o644,
				"/usr/share/fish/vendor_completions.d/kernelsym.fish": 0o644,
				"/usr/share/man/man1/kernelsym.1.gz":                  0o644,
				"/usr/share/zsh/" + zsh + "/_kernelsym":               0o644,
			}
			for name := range got { // one page for each command
				if strings.HasPrefix(name, "/usr/share/man/man1/kernelsym-") {
					want[name] = 0o644
				}
			}
			assert.Contains(t, want, "/usr/share/man/man1/kernelsym-doctor.1.gz")
			assert.Equal(t, want, got)
		})
	}
}

// readDeb lists a deb package, an ar archive whose member data.tar has the files; see deb(5).
func readDeb(t *testing.T, file string) modes {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	archive := ar.NewReader(f)
	data := io.Reader(archive)
	for name := ""; name != "data.tar"; {
		header, err := archive.Next()
		require.NoError(t, err, "no data.tar")
		if name = header.Name; name == "data.tar.gz" {
			data, err = gzip.NewReader(archive)
			require.NoError(t, err)
			break
		}
	}
	all, list := make(modes), tar.NewReader(data)
	for {
		header, err := list.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		assert.Zero(t, header.Uid+header.Gid, header.Name)
		if info := header.FileInfo(); !info.IsDir() {
			all[path.Join("/", header.Name)] = info.Mode()
		}
	}
}

// readRPM lists an rpm package of format version 3: a lead, the signature's header, the package's
// header, and a compressed cpio archive.
func readRPM(t *testing.T, file string) modes {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	at := 96 // after the lead
	for range 2 {
		at = (at + 7) &^ 7 // the second header is aligned
		require.Equal(t, []byte{0x8e, 0xad, 0xe8, 1}, content[at:at+4], "no header of an rpm")
		entries, data := binary.BigEndian.Uint32(content[at+8:]), binary.BigEndian.Uint32(content[at+12:])
		at += 16 + 16*int(entries) + int(data)
	}
	z, err := gzip.NewReader(bytes.NewReader(content[at:]))
	require.NoError(t, err)
	all, list := make(modes), cpio.NewReader(z)
	for {
		header, err := list.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		if info := header.FileInfo(); !info.IsDir() {
			all[path.Join("/", header.Name)] = info.Mode()
		}
	}
}
