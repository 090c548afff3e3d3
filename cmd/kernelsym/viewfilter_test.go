// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// ofProcess gives a message's samples the attributes of a thread, and its resource a container.
func ofProcess(pd pprofile.Profiles, pid int64, name, container string) pprofile.Profiles {
	d := pd.Dictionary()
	add := func(key string, set func(pprofile.KeyValueAndUnit)) int32 {
		d.StringTable().Append(key)
		a := d.AttributeTable().AppendEmpty()
		a.SetKeyStrindex(int32(d.StringTable().Len() - 1))
		set(a)
		return int32(d.AttributeTable().Len() - 1)
	}
	indices := []int32{
		add("process.pid", func(a pprofile.KeyValueAndUnit) { a.Value().SetInt(pid) }),
		add("thread.id", func(a pprofile.KeyValueAndUnit) { a.Value().SetInt(pid) }),
		add("thread.name", func(a pprofile.KeyValueAndUnit) { a.Value().SetStr(name) }),
	}
	for _, rp := range pd.ResourceProfiles().All() {
		if container != "" {
			rp.Resource().Attributes().PutStr("container.id", container)
		}
		for _, s := range rp.ScopeProfiles().At(0).Profiles().At(0).Samples().All() {
			s.AttributeIndices().Append(indices...)
		}
	}
	return pd
}

// TestViewFilters verifies that a page offers processes and containers, and shows the samples of the chosen ones.
func TestViewFilters(t *testing.T) {
	url := serveView(t, profileFile(t, ofProcess(kinds(), 10, "bash<", ""), ofProcess(message(), 20, "dd", "c1")))
	all := get(t, url)
	for _, text := range []string{`&#34;bash\u003c[10]&#34;`, `&#34;dd[20]&#34;`, `&#34;name&#34;:&#34;process&#34;`, ">nft_do_chain<", ">b<"} {
		assert.Contains(t, all, text)
	}
	assert.NotContains(t, all, `&#34;name&#34;:&#34;container&#34;`, "there is but one")

	one := get(t, url+"?process=dd%5B20%5D")
	assert.Contains(t, one, ">b<")
	assert.NotContains(t, one, ">nft_do_chain<")
	assert.Contains(t, get(t, url+"?container=c1"), `&#34;selected&#34;:&#34;c1&#34;`)

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"?process=dd%5B20%5D&container=none", nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusNotFound, response.StatusCode)
}

// TestViewFiltersOfSeveralHosts verifies that processes of two hosts with the same id are two choices.
func TestViewFiltersOfSeveralHosts(t *testing.T) {
	named := func(pd pprofile.Profiles, key, host string) pprofile.Profiles {
		for _, rp := range pd.ResourceProfiles().All() {
			rp.Resource().Attributes().PutStr(key, host)
		}
		return pd
	}
	url := serveView(t, profileFile(t, named(ofProcess(kinds(), 10, "bash", ""), "host.name", "vm"), named(ofProcess(message(), 10, "dd", ""), "host.id", "x<")))
	all := get(t, url)
	for _, text := range []string{`&#34;bash[10] on vm&#34;`, `&#34;dd[10] on x\u003c&#34;`} {
		assert.Contains(t, all, text)
	}
	one := get(t, url+"?process=dd%5B10%5D+on+x%3C")
	assert.Contains(t, one, ">b<")
	assert.NotContains(t, one, ">nft_do_chain<")
}
