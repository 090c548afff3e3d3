// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

type (
	frame   = rewritetest.Frame
	mapping = rewritetest.Mapping
	line    = rewritetest.Line
)

// send sends a message to a collector.
type send func(t *testing.T, pd pprofile.Profiles) error

func overGRPC(endpoint string) send {
	return func(t *testing.T, pd pprofile.Profiles) error {
		t.Helper()
		client, err := otelcol.NewClient(endpoint)
		require.NoError(t, err)
		defer func() { _ = client.Close() }()
		return client.Send(t.Context(), pd)
	}
}

func overHTTP(endpoint string) send { return overHTTPBy(new(net.Dialer).DialContext, endpoint) }

// overHTTPBy is overHTTP with a function that connects.
func overHTTPBy(dial func(ctx context.Context, network, address string) (net.Conn, error), endpoint string) send {
	return func(t *testing.T, pd pprofile.Profiles) error {
		t.Helper()
		body, err := pprofileotlp.NewExportRequestFromProfiles(pd).MarshalProto()
		require.NoError(t, err)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			"http://"+endpoint+"/v1development/profiles", bytes.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/x-protobuf")
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}).Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(response.Body)
			return fmt.Errorf("%s: %s", response.Status, text)
		}
		return nil
	}
}

// A rewritten is a frame before and after the rewrite.
type rewritten struct {
	what    string
	in, out frame
}

func same(what string, f frame) rewritten { return rewritten{what, f, f} }

// named returns the frame that an address in a function must become.
func (k *kernel) named(addr uint64, f function) frame {
	return frame{
		Address: addr - k.base, Type: "kernel", Mapping: k.relative(),
		Lines: []line{{Name: f.name, System: f.name}},
	}
}

// userStack has frames that must come out as they arrived.
var userStack = []rewritten{
	same("native", frame{Address: 0x1234, Type: "native", Mapping: &mapping{
		File: "libc.so.6", Start: 0x7f0000000000, Limit: 0x7f0000100000, BuildID: "00ff", FileID: "aa55",
		Attributes: map[string]any{"process.executable.build_id.go": "x/y"},
	}}),
	same("with lines", frame{Address: 0x7f0000000077, Mapping: &mapping{File: "app"}, Lines: []line{
		{Name: "inlined", System: "_Zinlined", File: "app.cc", Line: 7}, {Name: "main", File: "app.cc", Line: 70},
	}}),
	same("interpreted", frame{Type: "cpython", Lines: []line{{Name: "run", File: "run.py", Line: 3}}}),
	same("in the vsyscall page", frame{Address: 0xffffffffff600000}),
}

// producers returns the forms in section 2 of the contract, a stack for each, leaf first.
func producers(k *kernel) map[string][]rewritten {
	f, next := k.function, k.next
	call := f.start + 8
	absolute := []rewritten{
		{"1.1c leaf", frame{Address: f.start}, k.named(f.start, f)},
		{"caller", frame{Address: call}, k.named(call-1, f)},
		{"2.3 call that does not return", frame{Address: next.start}, k.named(next.start-1, f)},
		same("1.2 has a name", frame{Address: call, Type: "kernel", Lines: []line{{Name: "named", System: "named"}}}),
		{"1.2 placeholder", frame{Address: call, Type: "kernel", Lines: []line{{Name: "[unknown]"}}}, k.named(call-1, f)},
		same("1.1a of another type", frame{Address: call, Type: "native"}),
		same("1.2 time in a guest", frame{Type: "kernel", Lines: []line{{Name: "[guest]", System: "[guest]"}}}),
		same("not kernel code", frame{Address: 0xffff800000000000, Type: "kernel"}),
	}
	if k.aliased.name != "" {
		at := k.aliased.start + 5
		absolute = append(absolute, rewritten{"3.3 aliases", frame{Address: at, Type: "kernel"}, k.named(at-1, k.aliased)})
	}
	if p := k.padded; p.name != "" {
		nameless := k.named(p.start-5, p)
		nameless.Lines = nil
		absolute = append(absolute,
			rewritten{"3.1 padding", frame{Address: p.start - 4, Type: "kernel"}, nameless},
			rewritten{"2.3 interrupted at its first byte", frame{Address: p.start, Type: "kernel"}, k.named(p.start, p)},
		)
	}

	perf := &mapping{File: "[kernel.kallsyms]_text", Start: k.base, Limit: k.Etext}
	guest := &mapping{File: "[guest.kernel.kallsyms]"}
	perfStack := []rewritten{
		{"1.1b leaf", frame{Address: f.start + 1, Mapping: perf}, k.named(f.start+1, f)},
		{"caller", frame{Address: call, Mapping: perf}, k.named(call-1, f)},
		{"1.2 hexadecimal name", frame{Address: call + 1, Mapping: perf, Lines: []line{{Name: fmt.Sprintf("%#x", call+1)}}}, k.named(call, f)},
		same("1.2 has a name", frame{Address: call, Mapping: perf, Lines: []line{{Name: "named", System: "named"}}}),
		same("1.1 of a guest", frame{Address: call, Mapping: guest}),
	}

	vmlinux := &mapping{File: "vmlinux", BuildID: k.buildID}
	foreign := &mapping{File: "vmlinux", BuildID: strings.Repeat("5a", 20), FileID: fileID(strings.Repeat("5a", 20))}
	profiler := []rewritten{
		{"2.3 leaf", frame{Address: next.start - 1 - k.base, Type: "kernel", Mapping: vmlinux}, k.named(next.start-1, next)},
		{"caller", frame{Address: call - k.base, Type: "kernel", Mapping: vmlinux}, k.named(call, f)},
		{"2.2 second -1", frame{Address: next.start - 1 - k.base, Type: "kernel", Mapping: vmlinux}, k.named(next.start-1, f)},
		same("2.1 of another kernel", frame{Address: call - k.base, Type: "kernel", Mapping: foreign}),
		same("2.5 BPF", frame{Address: 0x40, Type: "kernel", Lines: []line{{Name: "bpf_prog_0123456789abcdef_x"}}}),
	}
	return map[string][]rewritten{
		"perf.absolute":                     absolute,
		"perf.pprof":                        perfStack,
		"go.opentelemetry.io/ebpf-profiler": profiler,
	}
}

// message returns a message with a profile for each producer. Each profile has two samples: one
// with all its frames, and one with user code only.
func message(all map[string][]rewritten) (in pprofile.Profiles, out []rewritetest.Sample) {
	m := rewritetest.NewMessage()
	stack := func(list []rewritten) (in, out []frame) {
		for _, f := range list {
			in, out = append(in, f.in), append(out, f.out)
		}
		return in, out
	}
	add := func(list []rewritten) {
		before, after := stack(list)
		m.Sample(before...)
		out = append(out, rewritetest.Sample{Stack: after, Values: []int64{1}})
	}
	for _, scope := range slices.Sorted(maps.Keys(all)) {
		m.Profile(map[string]any{"service.name": "app"}, scope)
		add(append(slices.Clone(all[scope]), userStack...))
		add(userStack)
	}
	return m.Profiles, out
}

const otlpConfig = `
receivers: {otlp: {protocols: {grpc: {endpoint: "%s"}, http: {endpoint: "%s"}}}}
processors: {kernelsym: }
exporters: {file: {path: %s, flush_interval: 50ms}}
service: {pipelines: {profiles: {receivers: [otlp], processors: [kernelsym], exporters: [file]}}}
`

// TestProducersOverOTLP verifies each frame that comes out for the messages of the known producers
// of kernel frames.
func TestProducersOverOTLP(t *testing.T) {
	kerneltest.Built(t, kerneltest.Collector)
	k := readKernel(t)
	endpoints := [2]string{freeAddress(t), freeAddress(t)}
	file := filepath.Join(t.TempDir(), "profiles.json")
	c := startCollector(t, fmt.Sprintf(otlpConfig, endpoints[0], endpoints[1], file))
	n := waitForSymbols(c, k, overGRPC(endpoints[0]), file)

	in, want := message(producers(k))
	user, _ := message(map[string][]rewritten{"user code": nil})
	for name, send := range map[string]send{"gRPC": overGRPC(endpoints[0]), "HTTP": overHTTP(endpoints[1])} {
		t.Run(name, func(t *testing.T) {
			for _, pd := range []pprofile.Profiles{in, user} {
				sent := pprofile.NewProfiles()
				pd.CopyTo(sent)
				require.NoError(t, send(t, sent))
			}
			var messages []pprofile.Profiles
			c.eventually("two messages come out", func() error {
				messages = c.exported(file)[n:]
				if len(messages) < 2 {
					return fmt.Errorf("%d have", len(messages))
				}
				return nil
			})
			n += len(messages)
			got := rewritetest.Samples(messages[0])
			require.Len(t, got, len(want))
			scopes := slices.Sorted(maps.Keys(producers(k)))
			for i := range want {
				list := append(slices.Clone(producers(k)[scopes[i/2]]), userStack...)
				require.Len(t, got[i].Stack, len(want[i].Stack))
				for position := range want[i].Stack {
					what := "user code"
					if i%2 == 0 {
						what = list[position].what
					}
					assert.Equal(t, want[i].Stack[position], got[i].Stack[position], "%s: %s", scopes[i/2], what)
				}
				assert.Equal(t, want[i].Values, got[i].Values)
			}
			assert.Equal(t, toJSON(t, user), toJSON(t, messages[1]), "a message without kernel frames")
		})
	}
}

func toJSON(t *testing.T, pd pprofile.Profiles) string {
	t.Helper()
	b, err := (&pprofile.JSONMarshaler{}).MarshalProfiles(pd)
	require.NoError(t, err)
	return string(b)
}
