// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

// parcaBinary is the variable of the environment that names the binary of Parca 0.28.0.
const parcaBinary = "KERNELSYM_PARCA"

// A parca is a running Parca that stores only what a test sends to it.
type parca struct{ address string }

// needParca returns the file name of Parca's binary. It skips the test if the environment does not name one.
func needParca(t *testing.T) (binary string) {
	t.Helper()
	binary = os.Getenv(parcaBinary)
	if binary == "" {
		t.Skipf("%s does not name the binary of Parca 0.28.0, so Parca is not asked what it stored", parcaBinary)
	}
	return binary
}

// startParca starts Parca with empty storage on a local address, without servers from which it could download debug
// information. The end of the test stops it.
func startParca(t *testing.T) *parca {
	t.Helper()
	binary := needParca(t)
	address, err := otelcol.FreeAddress(t.Context())
	require.NoError(t, err)
	dir := t.TempDir()
	config := filepath.Join(dir, "parca.yaml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil,
		"object_storage: {bucket: {type: FILESYSTEM, config: {directory: %q}}}", filepath.Join(dir, "bucket")), 0o600))
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary, "--config-path="+config, "--http-address="+address,
		"--storage-path="+filepath.Join(dir, "storage"), "--debuginfo-cache-dir="+filepath.Join(dir, "debuginfo"),
		"--debuginfod-upstream-servers=", "--profile-share-server=127.0.0.1:1")
	cmd.Dir = dir
	process, err := otelcol.Start(cmd)
	require.NoError(t, err, parcaBinary)
	t.Cleanup(func() {
		_ = process.Stop() // Parca's exit status is 1 after an interrupt
		if t.Failed() {
			t.Logf("log of Parca:\n%s", process.Log())
		}
	})
	p := &parca{address}
	require.NoError(t, process.Eventually(t.Context(), "Parca answers", func() error {
		_, err := p.get(t.Context(), "profiles/types", nil)
		return err
	}))
	return p
}

// send sends a message to Parca.
func (p *parca) send(t *testing.T, pd pprofile.Profiles) error {
	t.Helper()
	client, err := otelcol.NewClient(p.address)
	require.NoError(t, err)
	defer func() { _ = client.Close() }()
	return client.Send(t.Context(), pd)
}

// get returns the answer to a query.
func (p *parca) get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/api/"+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, response.Status, body)
	}
	return body, err
}

// types returns the types of all stored profiles, as queries name them, sorted.
func (p *parca) types(t *testing.T) (types []string) {
	t.Helper()
	body, err := p.get(t.Context(), "profiles/types", nil)
	require.NoError(t, err)
	var answer struct {
		Types []struct {
			Name, SampleType, SampleUnit, PeriodType, PeriodUnit string
			Delta                                                bool
		}
	}
	require.NoError(t, json.Unmarshal(body, &answer))
	for _, a := range answer.Types {
		require.True(t, a.Delta, "a profile without a duration")
		types = append(types, parcaType(a.Name, a.SampleType, a.SampleUnit, a.PeriodType, a.PeriodUnit))
	}
	slices.Sort(types)
	return types
}

// labels returns the names of all labels, sorted.
func (p *parca) labels(t *testing.T) []string {
	t.Helper()
	body, err := p.get(t.Context(), "profiles/labels", nil)
	require.NoError(t, err)
	var answer struct{ LabelNames []string }
	require.NoError(t, json.Unmarshal(body, &answer))
	slices.Sort(answer.LabelNames)
	return answer.LabelNames
}

// merged returns all stored samples of a type of profile and, unless it is empty, a label.
func (p *parca) merged(t *testing.T, profileType, label string) *profile.Profile {
	t.Helper()
	body, err := p.get(t.Context(), "profiles/query", url.Values{
		"mode": {"MODE_MERGE"}, "report_type": {"REPORT_TYPE_PPROF"}, "merge.query": {profileType + "{" + label + "}"},
		"merge.start": {time.Unix(0, 0).UTC().Format(time.RFC3339)}, "merge.end": {time.Now().Add(time.Hour).UTC().Format(time.RFC3339)},
	})
	require.NoError(t, err)
	var answer struct{ Pprof []byte }
	require.NoError(t, json.Unmarshal(body, &answer))
	merged, err := profile.Parse(bytes.NewReader(answer.Pprof))
	require.NoError(t, err)
	return merged
}

// requireStored requires that Parca has all of what was sent, and nothing else.
func (p *parca) requireStored(t *testing.T, sent parcaProfiles) {
	t.Helper()
	var types []string
	for profileType, of := range sent {
		types = append(types, profileType)
		stacks := make(map[string]int64)
		for _, s := range p.merged(t, profileType, "").Sample {
			var stack []parcaFrame
			for _, loc := range s.Location {
				f := storedFrame(loc)
				require.Contains(t, of.frames[f.identity()], f)
				stack = append(stack, f)
			}
			stacks[identities(stack)] += s.Value[0]
		}
		require.Equal(t, of.stacks, stacks, profileType)
		for label, total := range of.labels {
			var got int64
			for _, s := range p.merged(t, profileType, label).Sample {
				got += s.Value[0]
			}
			assert.Equal(t, total, got, "%s{%s}", profileType, label)
		}
	}
	slices.Sort(types)
	require.Equal(t, types, p.types(t))
}

// TestParcaProfilers verifies that Parca stores each event in messages of the OTel eBPF profiler, with the modules,
// addresses and lines of all frames. Their names are those of other functions, as docs/backends.md says.
func TestParcaProfilers(t *testing.T) {
	for shape, opts := range profilersShapes {
		t.Run(shape, func(t *testing.T) {
			p := startParca(t)
			pd := namedMessage(t, opts)
			withoutResources(pd)
			require.NoError(t, p.send(t, pd))
			sent := make(parcaProfiles)
			sent.add(pd)
			require.Len(t, sent, 1)
			p.requireStored(t, sent)
		})
	}
}

// withoutResources removes the attributes of resources, as the configuration in docs/backends.md does.
func withoutResources(pd pprofile.Profiles) {
	for _, rp := range pd.ResourceProfiles().All() {
		rp.Resource().Attributes().Clear()
	}
}

// TestWhatParcaRefuses verifies that Parca still makes the demands that docs/backends.md names, and that these tests notice
// if one is not met.
func TestWhatParcaRefuses(t *testing.T) {
	p := startParca(t)
	pd := profilersMessage(t, profilersStacks())
	require.ErrorContains(t, p.send(t, pd), "attribute key at index 0 in resource attributes is empty")
	require.Empty(t, p.types(t))

	withoutResources(pd)
	for _, rp := range pd.ResourceProfiles().All() {
		pprofile.NewValueType().CopyTo(rp.ScopeProfiles().At(0).Profiles().At(0).PeriodType())
	}
	require.NoError(t, p.send(t, pd))
	_, err := p.get(t.Context(), "profiles/types", nil)
	require.ErrorContains(t, err, "index out of range", "profiles without a period type")
}
