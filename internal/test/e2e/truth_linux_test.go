// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

// A known frame is one whose name the test knows.
type known struct {
	frame int      // position in the stack
	kind  string   // frames of one kind are counted together
	name  string   // "" if the frame must not be named
	other []string // other names of the same code
}

// A verdict counts what became of the frames of a kind. A frame that must not be named is right
// without a name.
type verdict struct{ right, unnamed, wrong int }

func (v verdict) String() string {
	return fmt.Sprintf("%d right, %d unnamed, %d wrong", v.right, v.unnamed, v.wrong)
}

// A truth sends real samples through a collector and checks the names of the known frames.
type truth struct {
	*collector
	client  *otelcol.Client
	metrics string // address

	mu       sync.Mutex
	run      rewritetest.Run       // checks everything that comes out
	messages int                   // sent
	sent     map[string][]knownRow // samples that have not come out yet, by message
	verdicts map[string]*verdict   // by kind
	wrong    []string              // the first wrong names

	counted   map[string]float64 // the metrics when the test began
	disturbed string             // why frames may have no names
}

// A knownRow is a sample and its known frames.
type knownRow struct {
	sample
	known []known
}

const (
	truthKey    = "truth.message"
	truthConfig = `
receivers: {otlp: {protocols: {grpc: {endpoint: %q}}}}
processors: {kernelsym: {addresses: keep}}
exporters: {otlp_grpc: {endpoint: %q, compression: none, timeout: 1m, tls: {insecure: true}}}
service:
  telemetry: {metrics: {readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: %s}}}}]}}
  pipelines: {profiles: {receivers: [otlp], processors: [kernelsym], exporters: [otlp_grpc]}}
`
)

// startTruth starts a collector with a function that starts its command.
func startTruth(t *testing.T, start func(*exec.Cmd) error) *truth {
	t.Helper()
	tr := &truth{
		metrics: freeAddress(t), sent: make(map[string][]knownRow), verdicts: make(map[string]*verdict),
		counted: make(map[string]float64),
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	backend := otelcol.Serve(listener, tr.receive)
	t.Cleanup(backend.Stop)
	endpoint := freeAddress(t)
	_, port, err := net.SplitHostPort(tr.metrics)
	require.NoError(t, err)
	tr.client, err = otelcol.NewClient(endpoint)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tr.client.Close() })
	tr.collector = startCollectorBy(t, start, fmt.Sprintf(truthConfig, endpoint, listener.Addr(), port))
	return tr
}

// startWhole starts a collector with all privileges.
func startWhole(t *testing.T) *truth {
	t.Helper()
	return startTruth(t, (*exec.Cmd).Start)
}

// send sends samples with their timestamps.
func (tr *truth) send(rows []knownRow) { tr.t.Helper(); tr.sendAs(rows, true) }

// sendUndated sends samples as a profile that has only a start and a duration.
func (tr *truth) sendUndated(rows []knownRow) { tr.t.Helper(); tr.sendAs(rows, false) }

func (tr *truth) sendAs(rows []knownRow, dated bool) {
	tr.t.Helper()
	const perMessage = 300
	for rows := range slices.Chunk(rows, perMessage) {
		tr.mu.Lock()
		tr.messages++
		id := strconv.Itoa(tr.messages)
		tr.sent[id] = rows
		tr.mu.Unlock()
		m := rewritetest.NewMessage().Profile(map[string]any{truthKey: id}, "")
		for _, row := range rows {
			var stack []frame
			for _, addr := range row.stack {
				stack = append(stack, frame{Address: addr, Type: "kernel"})
			}
			m.Sample(stack...)
			if dated {
				m.LastSample().TimestampsUnixNano().Append(uint64(row.at))
			}
		}
		profile := m.Profiles.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0)
		byTime := func(a, b knownRow) int { return cmp.Compare(a.at, b.at) }
		first, last := slices.MinFunc(rows, byTime).at, slices.MaxFunc(rows, byTime).at
		profile.SetTime(pcommon.Timestamp(first))
		profile.SetDurationNano(uint64(last - first))
		// Even the newest sample must be as old as the clocks may differ (section 5.3 of the
		// contract).
		time.Sleep(time.Millisecond - time.Since(time.Unix(0, last)))
		require.NoError(tr.t, tr.client.Send(tr.t.Context(), m.Profiles))
	}
}

// receive judges a message that comes out.
func (tr *truth) receive(pd pprofile.Profiles) {
	resource := pd.ResourceProfiles().At(0).Resource()
	id, _ := resource.Attributes().Get(truthKey)
	samples := rewritetest.Samples(pd)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	rows, ok := tr.sent[id.Str()]
	if delete(tr.sent, id.Str()); !ok {
		return // it was sent again
	}
	if err := tr.run.Check(pd); err != nil || len(samples) != len(rows) {
		tr.t.Errorf("a message came out wrong: %d samples of %d, %v", len(samples), len(rows), err)
		return
	}
	for i, row := range rows {
		for _, k := range row.known {
			tr.judge(row, k, samples[i].Stack[k.frame])
		}
	}
}

func (tr *truth) judge(row knownRow, k known, f frame) {
	v := tr.verdicts[k.kind]
	if v == nil {
		v = new(verdict)
		tr.verdicts[k.kind] = v
	}
	name := ""
	if len(f.Lines) > 0 {
		name = f.Lines[0].System
	}
	switch {
	case name == k.name || slices.Contains(k.other, name):
		v.right++
	case name == "":
		v.unnamed++
	default:
		v.wrong++
		if len(tr.wrong) < 5 {
			tr.wrong = append(tr.wrong, fmt.Sprintf("%s: frame %d of %#x at %d is %q and was named %q",
				k.kind, k.frame, row.stack, row.at, k.name, name))
		}
	}
}
