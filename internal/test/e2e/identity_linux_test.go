// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
	"github.com/kernelsym/kernelsym/internal/test/otelcol"
)

// identity is what identifies a frame for backends.
type identity struct {
	file    string // its ID
	address uint64
}

// TestIdentityInEachBoot sends the same functions of the core kernel and of a module through two
// processors, and prints what identifies them for backends. With `addresses: relative`, that is the
// same in each boot, in spite of KASLR; with `keep`, it is different (section 4 of the contract).
// The runner of virtual machines compares the boots.
func TestIdentityInEachBoot(t *testing.T) {
	kerneltest.NeedVM(t)
	if os.Getenv(kerneltest.BootsEnv) == "1" {
		t.Skip("there is no second boot to compare with: `make test-vm` tests this on its own")
	}
	const module = "af_alg"
	require.NoError(t, kerneltest.LoadModule(module))
	x := kerneltest.ReadSymbols(t)
	in := make(map[string]uint64)
	for _, name := range []string{"vfs_read", "vfs_write", "schedule", "ip_rcv"} {
		in[name] = x.Address[name]
		require.NotZero(t, in[name], name)
	}
	for _, f := range kerneltest.ReadModuleCode(t, module).Functions {
		if f.Name == "af_alg_accept" {
			in[f.Name] = textOf(t, module) + f.Start
		}
	}
	for _, mode := range []string{"relative", "keep"} {
		files := make(map[string]bool)
		var all string
		ids := identitiesOf(t, mode, in)
		for _, name := range slices.Sorted(maps.Keys(ids)) {
			files[ids[name].file] = true
			all += fmt.Sprintln(name, ids[name])
		}
		assert.Len(t, files, 2, "the core kernel and the module")
		if mode == "relative" {
			fmt.Printf("%s%x\n", kerneltest.SameInEachBoot, sha256.Sum256([]byte(all)))
			continue
		}
		for file := range files {
			fmt.Println(kerneltest.OtherInEachBoot + file)
		}
	}
}

// identitiesOf sends addresses through a collector, and returns the identities of the frames that
// come out.
func identitiesOf(t *testing.T, mode string, in map[string]uint64) map[string]identity {
	t.Helper()
	file, endpoint := filepath.Join(t.TempDir(), "profiles.json"), freeAddress(t)
	c := startCollector(t, `
receivers: {otlp: {protocols: {grpc: {endpoint: "`+endpoint+`"}}}}
processors: {kernelsym: {addresses: `+mode+`}}
exporters: {file: {path: `+file+`, flush_interval: 100ms}}
service: {pipelines: {profiles: {receivers: [otlp], processors: [kernelsym], exporters: [file]}}}
`)
	c.waitUntilFollowed()
	client, err := otelcol.NewClient(endpoint)
	require.NoError(t, err)
	defer func() { _ = client.Close() }()
	m := rewritetest.NewMessage().Profile(nil, "")
	names := slices.Sorted(maps.Keys(in))
	for _, name := range names {
		m.Sample(frame{Address: in[name], Type: "kernel"})
		m.LastSample().TimestampsUnixNano().Append(uint64(time.Now().UnixNano()))
	}
	require.NoError(t, client.Send(t.Context(), m.Profiles))
	c.stop()
	ids := make(map[string]identity)
	for i, s := range rewritetest.Samples(exported(t, file)[0]) {
		f := s.Stack[0]
		require.NotEmpty(t, f.Lines, "%s: %+v", names[i], f)
		ids[names[i]] = identity{f.Mapping.FileID, f.Address}
	}
	return ids
}
