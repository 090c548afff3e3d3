// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/doctor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// unpack returns the files of a bundle, and checks that all are in one directory.
func unpack(t *testing.T, content []byte) map[string]string {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(content))
	require.NoError(t, err)
	archive := tar.NewReader(compressed)
	files := make(map[string]string)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		text, err := io.ReadAll(archive)
		require.NoError(t, err)
		assert.Equal(t, "kernelsym-bundle", path.Dir(header.Name))
		files[path.Base(header.Name)] = string(text)
	}
}

func TestScrub(t *testing.T) {
	s := newScrubber([]string{"db1", "node-7", "node-7.example.org"})
	for in, want := range map[string]string{
		"at ffffffff81000000, 0xFFFF888000000000":                             "at [address], [address]",
		"RIP: 0010:ffffffffa0001234+0x1c":                                     "RIP: 0010:[address]+0x1c",
		`{"a":18446744071578845184}`:                                          `{"a":[address]}`,
		"user 00007f0000001000 0x7fffffffffffffff":                            "user 00007f0000001000 0x7fffffffffffffff",
		"1767323045123456789 ns":                                              "1767323045123456789 ns",
		"e4f18d9dc1d0e6fc2b17e93e885a647b3c0a6fc1":                            "e4f18d9dc1d0e6fc2b17e93e885a647b3c0a6fc1",
		`\u003cffffffff81445680\u003e %20ffffffff81445680 pcffffffff81445680`: `\u003c[address]\u003e %20[address] pc[address]`,
		"-2126226816 -0xffffffff81445680 -14 2026-11-22":                      "[address] [address] -14 2026-11-22",
		"NODE-7.example.org, node-7:4317, node-70":                            "[host], [host]:4317, [host]0",
		"db1 db12 db1.": "[host] db12 [host].",
	} {
		assert.Equal(t, want, string(s.scrub([]byte(in))))
	}
	assert.Equal(t, "node-7", string(newScrubber(nil).scrub([]byte("node-7"))), "without names, none is removed")
}

// serveMetrics serves metrics as a collector does, and returns their URL.
func serveMetrics(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "# HELP otelcol_processor_kernelsym_symbols Number of known symbols.\n"+
			"otelcol_processor_kernelsym_symbols{origin=\"kernel\"} 64064\n"+
			"target_info{host_name=\"secret\"} 1\n"+
			"otelcol_exporter_sent_samples{exporter=\"otlp/secret\"} 1\n"+
			"otelcol_process_memory_rss{} 1.5e+08\n")
	}))
	t.Cleanup(server.Close)
	return server.URL + "/metrics"
}

// textAddress returns the address at which the kernel's code begins, which no bundle may reveal. If
// the kernel hides it, textAddress returns something that looks like an address.
func textAddress(t *testing.T) string {
	t.Helper()
	list, err := os.ReadFile("/proc/kallsyms")
	require.NoError(t, err)
	address, _, _ := strings.Cut(string(list[max(0, bytes.Index(list, []byte(" T _stext\n"))-16):]), " ")
	if strings.Trim(address, "0") == "" {
		return "ffffffff81000000"
	}
	return address
}

// TestWrite makes a bundle of this machine, with a log that has addresses and the host's name, and
// verifies that these are not in the bundle.
func TestWrite(t *testing.T) {
	host, err := os.Hostname()
	require.NoError(t, err)
	address, dir := textAddress(t), t.TempDir()
	log := filepath.Join(dir, "otelcol.log")
	require.NoError(t, os.WriteFile(log, []byte("starting on "+host+" at 0x"+address+"\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "abcd.kspack"), []byte("12345"), 0o600))
	report := doctor.Run(t.Context(), doctor.Options{Procfs: "/proc", Sysfs: "/sys"})
	var out bytes.Buffer
	require.NoError(t, Write(t.Context(), &out, Options{
		Version: "1.2.3", Report: &report, Packs: dir, Metrics: serveMetrics(t), Log: log,
	}))
	files := unpack(t, out.Bytes())

	kernelHalf := regexp.MustCompile(`(?i)(^|[^0-9a-f])[89a-f][0-9a-f]{15}($|[^0-9a-f])`)
	hostName := regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(host) + `\b`)
	for name, text := range files {
		assert.NotRegexp(t, kernelHalf, text, name)
		assert.NotContains(t, text, address, name)
		if host != "localhost" {
			assert.NotRegexp(t, hostName, text, name)
		}
		assert.NotContains(t, text, "secret", name)
		if name != "README.txt" {
			assert.Contains(t, files["README.txt"], "\n"+name+": ", "what each is")
		}
	}
	assert.Contains(t, files["collector.log"], " at [address]\n")
	assert.Contains(t, files["doctor.txt"], "symbols: kallsyms")
	assert.JSONEq(t, files["doctor.json"], string(encode(report)))
	assert.Contains(t, files["machine.json"], `"kernelsym": "1.2.3"`)
	assert.Contains(t, files["machine.json"], `"sys/kernel/kptr_restrict": "`)
	assert.Contains(t, files["machine.json"], `"CapEff": "`)
	assert.Contains(t, files["symbols.json"], `"name": "kallsyms"`)
	assert.Contains(t, files["packs.json"], `"bytes": 5`)
	assert.Equal(t, 3, strings.Count(files["metrics.txt"], "\n"), files["metrics.txt"])
}

// TestWhatCannotBeRead verifies that the file of data that cannot be read contains the reason.
func TestWhatCannotBeRead(t *testing.T) {
	dead := httptest.NewServer(http.NotFoundHandler())
	address := dead.URL
	assert.Contains(t, string(fetchMetrics(t.Context(), address)), "the server answers 404 Not Found")
	dead.Close()
	refused := string(fetchMetrics(t.Context(), address))
	assert.Contains(t, refused, "the metrics could not be read: ")
	assert.NotContains(t, refused, "http://")
	assert.Contains(t, string(readEnd("/nowhere/log")), "the log could not be read: open /nowhere/log: no such file")
	assert.Contains(t, string(encode(listPacks("/nowhere"))), "no such file")
}

// TestEndOfALongLog verifies that the end of a long log begins with a whole line.
func TestEndOfALongLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	line := "0xffffffff81000000 and some text\n"
	require.NoError(t, os.WriteFile(name, []byte(strings.Repeat(line, 2*maxLog/len(line))), 0o600))
	end := string(readEnd(name))
	assert.True(t, strings.HasPrefix(end, line))
	assert.Greater(t, len(end), maxLog-len(line))
	assert.LessOrEqual(t, len(end), maxLog)
}
