// SPDX-License-Identifier: Apache-2.0

package packer_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packer"
	"github.com/kernelsym/kernelsym/internal/pack"
)

func TestParseURLs(t *testing.T) {
	urls, err := packer.ParseURLs(" http://localhost:8002  https://debuginfod.example/path/ ")
	require.NoError(t, err)
	assert.Equal(t, []string{"http://localhost:8002", "https://debuginfod.example/path/"}, urls)
	_, err = packer.ParseURLs(" ")
	require.ErrorIs(t, err, packer.ErrNoServers)
	for _, wrong := range []string{"localhost:8002", "file:///srv", "http://", "ftp://server"} {
		_, err = packer.ParseURLs(wrong)
		assert.ErrorContains(t, err, "DEBUGINFOD_URLS", wrong)
	}
}

// serve returns a client of two servers. Only the second has the files in a directory.
func serve(t *testing.T, dir string) (packer.Debuginfod, *atomic.Int64) {
	t.Helper()
	var requests atomic.Int64
	empty := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(empty.Close)
	full := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if strings.Contains(r.URL.Path, alphaID) {
			w.Header().Set("X-DEBUGINFOD-FILE", "kernel/alpha-beta.ko.debug")
		}
		http.ServeFile(w, r, filepath.Join(dir, filepath.FromSlash(r.URL.Path)))
	}))
	t.Cleanup(full.Close)
	client := full.Client()
	t.Cleanup(client.CloseIdleConnections)
	return packer.Debuginfod{URLs: []string{empty.URL, full.URL + "/"}, Client: client}, &requests
}

func TestDebuginfod(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir, out := t.TempDir(), t.TempDir()
	buildCore(t, filepath.Join(dir, "buildid", coreID, "debuginfo"))
	buildModule(t, filepath.Join(dir, "buildid", alphaID, "debuginfo"), "alpha", alphaID)
	command(t, "objcopy", "--only-keep-debug", filepath.Join(dir, "buildid", alphaID, "debuginfo"))
	buildModule(t, filepath.Join(dir, "buildid", betaID, "debuginfo"), "beta", betaNext)
	buildModule(t, filepath.Join(dir, "buildid", betaNext, "debuginfo"), "beta", betaNext)
	command(t, "objcopy", "--only-keep-debug", filepath.Join(dir, "buildid", betaNext, "debuginfo"))

	d, _ := serve(t, dir)
	var seen progress
	const missing = "aaaaaaaaaaaaaaaa"
	result, err := d.Run(t.Context(), []packer.Build{
		{ID: coreID}, {ID: missing}, {ID: betaID}, {ID: "../../etc/passwd"}, {ID: alphaID}, {ID: betaNext},
	}, packer.Options{Dir: out, Progress: &seen})
	require.ErrorIs(t, err, packer.ErrNotServed)
	require.ErrorContains(t, err, "build "+missing)
	require.ErrorContains(t, err, "build "+betaNext+": neither the server nor the debug information says")
	require.ErrorIs(t, err, packer.ErrOtherBuild, "what the server gave for %s", betaID)
	require.ErrorContains(t, err, `"../../etc/passwd" is not a build ID`)
	assert.Equal(t, 2, result.Packs, "the others are made")
	assert.Equal(t, seen.all.Load(), seen.done.Load())
	assert.ElementsMatch(t, []string{coreID + pack.Ext, alphaID + pack.Ext}, files(t, out))
	assert.Equal(t, []string{"inner", "start_kernel"}, chain(t, read(t, out, coreID), "start_kernel"))
	p := read(t, out, alphaID)
	assert.Equal(t, "alpha_beta", p.Info().Name, "the server says it")
	assert.Equal(t, []string{"inner", "outer"}, chain(t, p, "outer"))

	_, err = d.Run(t.Context(), []packer.Build{{ID: betaNext, Module: "beta"}}, packer.Options{Dir: out})
	require.NoError(t, err)
	assert.Equal(t, "beta", read(t, out, betaNext).Info().Name, "sysfs says it")
	assert.Empty(t, files(t, os.TempDir()), "fetched files are removed")
}

// TestDebuginfodSlowServers verifies that the next server is asked after one that accepts a request and sends nothing, after
// one that stops in the middle of a file, and after one that sends a few bytes again and again.
func TestDebuginfodSlowServers(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	buildCore(t, filepath.Join(dir, "buildid", coreID, "debuginfo"))
	d, requests := serve(t, dir)
	const patience = time.Second
	silent := func(begin func(w http.ResponseWriter)) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			begin(w)
			<-r.Context().Done()
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	urls := []string{
		silent(func(http.ResponseWriter) {}),
		silent(func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("\x7fELF"))
			_ = http.NewResponseController(w).Flush()
		}),
		silent(func(w http.ResponseWriter) {
			for range 1000 {
				_, _ = w.Write(make([]byte, 100))
				if http.NewResponseController(w).Flush() != nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		}),
	}
	alone := packer.Debuginfod{URLs: urls, Client: d.Client, Patience: patience}
	_, err := alone.Run(t.Context(), []packer.Build{{ID: coreID}}, packer.Options{Dir: out})
	require.ErrorIs(t, err, packer.ErrNotServed)
	for _, url := range urls {
		require.ErrorContains(t, err, url+"/buildid/"+coreID+"/debuginfo: the server sends too little: ")
	}

	d.URLs, d.Patience = append(urls, d.URLs...), patience
	result, err := d.Run(t.Context(), []packer.Build{{ID: coreID}}, packer.Options{Dir: out})
	require.NoError(t, err)
	assert.Equal(t, 1, result.Packs)
	assert.EqualValues(t, 1, requests.Load())
}

func TestDebuginfodInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d, requests := serve(t, t.TempDir())
	_, err := d.Run(ctx, []packer.Build{{ID: coreID}}, packer.Options{Dir: t.TempDir()})
	require.ErrorIs(t, err, context.Canceled)
	assert.Zero(t, requests.Load())
}

func TestRunningBuilds(t *testing.T) {
	sysfs := t.TempDir()
	_, err := packer.RunningBuilds(sysfs)
	require.ErrorContains(t, err, "check that sysfs is mounted there")
	write(t, filepath.Join(sysfs, "kernel/notes"), notes(t, coreID))
	write(t, filepath.Join(sysfs, "module/alpha/notes/.note.gnu.build-id"), notes(t, alphaID))
	write(t, filepath.Join(sysfs, "module/builtin/parameters/on"), []byte("Y\n"))
	builds, err := packer.RunningBuilds(sysfs)
	require.NoError(t, err)
	assert.Equal(t, []packer.Build{{ID: coreID}, {ID: alphaID, Module: "alpha"}}, builds)
}

// TestRealDebuginfod fetches a kernel and a module from the server of elfutils, which finds them
// among files.
func TestRealDebuginfod(t *testing.T) {
	if _, err := exec.LookPath("debuginfod"); err != nil {
		t.Skip("no debuginfod (Debian: package debuginfod): packs from a real server are not tested")
	}
	tree, out := t.TempDir(), t.TempDir()
	buildCore(t, filepath.Join(tree, "vmlinux"))
	buildModule(t, filepath.Join(tree, "alpha.ko"), "alpha", alphaID)
	buildModule(t, filepath.Join(tree, "debug", "alpha.ko.debug"), "alpha", alphaID)
	command(t, "objcopy", "--only-keep-debug", filepath.Join(tree, "debug", "alpha.ko.debug"))
	command(t, "objcopy", "--strip-debug", filepath.Join(tree, "alpha.ko"))
	server := startDebuginfod(t, tree)

	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	d := packer.Debuginfod{URLs: []string{server}, Client: client}
	builds := []packer.Build{{ID: coreID}, {ID: alphaID}}
	var result packer.Result
	require.Eventually(t, func() bool { // the server is still scanning the files
		var err error
		result, err = d.Run(t.Context(), builds, packer.Options{Dir: out})
		return err == nil
	}, time.Minute, 100*time.Millisecond)
	assert.Equal(t, 2, result.Packs)
	assert.Equal(t, []string{"inner", "start_kernel"}, chain(t, read(t, out, coreID), "start_kernel"))
	p := read(t, out, alphaID)
	assert.Equal(t, "alpha", p.Info().Name)
	assert.Equal(t, []string{"inner", "outer"}, chain(t, p, "outer"))
}

// startDebuginfod runs a server for the files in a directory, and returns its URL.
func startDebuginfod(t *testing.T, dir string) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := listener.Addr().(*net.TCPAddr).Port
	require.NoError(t, listener.Close())
	cmd := exec.CommandContext(t.Context(), "debuginfod", "-p", strconv.Itoa(port), "-d", ":memory:", "-F", dir)
	cmd.Env = append(os.Environ(), "DEBUGINFOD_URLS=", "HOME="+t.TempDir())
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return fmt.Sprintf("http://127.0.0.1:%d", port)
}
