// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/hot"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

func TestViewWhereThePortIsTaken(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	address := listener.Addr().String()
	_, _, err = execute(t, "", "view", profileFile(t, message()), "--http", address)
	require.ErrorContains(t, err, address+" is in use: choose another address with --http")
	assert.NotErrorIs(t, err, errUsage)
}

// serveView serves the flame graph of a file until the test ends, and returns its address.
func serveView(t *testing.T, file string) (url string) {
	t.Helper()
	return serveViewAt(t, "localhost:0", file)
}

func serveViewAt(t *testing.T, address, file string) (url string) {
	t.Helper()
	stderr, printed := io.Pipe()
	cmd := newCommand()
	cmd.SetArgs([]string{"view", file, "--http", address})
	cmd.SetErr(printed)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.ExecuteContext(ctx)
		_ = printed.Close()
	}()
	t.Cleanup(func() {
		cancel()
		go func() { _, _ = io.Copy(io.Discard, stderr) }()
		select {
		case err := <-ended:
			assert.NoError(t, err)
		case <-time.After(time.Minute):
			t.Error("view did not end")
		}
		http.DefaultClient.CloseIdleConnections()
	})
	line := make([]byte, 1000)
	n, err := stderr.Read(line)
	require.NoError(t, err)
	url = regexp.MustCompile(`http://\S+`).FindString(string(line[:n]))
	require.NotEmpty(t, url, "%s", line[:n])
	return url
}

func get(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	return string(body)
}

func TestView(t *testing.T) {
	url := serveView(t, profileFile(t, kinds()))
	body := get(t, url)
	for _, name := range []string{"do_softirq.part.0", "__do_softirq (inlined)", "[no name] vmlinux+0x1234", "core kernel", "BPF"} {
		assert.Contains(t, body, ">"+name)
	}
}

// TestViewOnAllAddresses verifies that the URL on standard error can be opened if the server listens on all addresses.
func TestViewOnAllAddresses(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		url := serveViewAt(t, address, profileFile(t, kinds()))
		assert.Regexp(t, `^http://localhost:\d+/$`, url)
		assert.Contains(t, get(t, url), "core kernel")
	}
}

// TestViewFiles verifies the output of --svg, --folded and --pprof, and that no server is started.
func TestViewFiles(t *testing.T) {
	dir := t.TempDir()
	svg, folded, pprof := filepath.Join(dir, "svg"), filepath.Join(dir, "folded"), filepath.Join(dir, "pprof")
	file := profileFile(t, message())
	out, errs, err := execute(t, "", "view", "--svg", svg, "--folded", folded, "--pprof", pprof, file, file)
	require.NoError(t, err)
	assert.Empty(t, out)
	assert.Empty(t, errs)

	picture, err := os.ReadFile(svg)
	require.NoError(t, err)
	assert.Contains(t, string(picture), "8 samples over 1s, 75.0 % in the kernel; 83.3 % of the kernel frames have a name")
	text, err := os.ReadFile(folded)
	require.NoError(t, err)
	assert.Equal(t, `[no name] 2
[no name];b 2
[no name];b;b;a 2
[no name] vmlinux+0x10;a 2
`, string(text))
	f, err := os.Open(pprof)
	require.NoError(t, err)
	defer f.Close()
	p, err := profile.Parse(f)
	require.NoError(t, err)
	assert.Len(t, p.Sample, 4)

	content, err := os.ReadFile(file)
	require.NoError(t, err)
	out, _, err = execute(t, string(content)+string(content), "view", "--folded", "-", "-")
	require.NoError(t, err)
	assert.Equal(t, string(text), out)

	_, _, err = execute(t, "", "view", "--svg", dir, file)
	assert.ErrorContains(t, err, "is a directory")
}

// TestViewWithoutNames verifies the message if no kernel frame can be shown by name.
func TestViewWithoutNames(t *testing.T) {
	user := rewritetest.Frame{Address: 0x1000, Type: "native"}
	for name, tt := range map[string]struct {
		frames []rewritetest.Frame
		want   string
	}{
		"without type": {[]rewritetest.Frame{{Address: 0xffffffff81000010}, user}, hot.NoNamesInFile + "\n"},
		"with type":    {[]rewritetest.Frame{kernelFrame(""), user}, hot.NoNamesInFile + "\n"},
		"user space":   {[]rewritetest.Frame{user}, "No kernel frames in 1 sample.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			file := profileFile(t, rewritetest.NewMessage().Profile(nil, "").Sample(tt.frames...).Profiles)
			out, errs, err := execute(t, "", "view", "--folded", "-", file)
			require.NoError(t, err)
			assert.Equal(t, tt.want, errs)
			assert.Equal(t, len(tt.frames), strings.Count(out, "[no name]"))
		})
	}
	none := rewritetest.NewMessage().Profile(nil, "").Profiles
	_, _, err := execute(t, "", "view", "--folded", "-", profileFile(t, none))
	assert.ErrorIs(t, err, errNoSamples)
}
