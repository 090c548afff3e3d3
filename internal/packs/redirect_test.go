// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// withCredentials adds a header to each request, as confighttp does.
func withCredentials(do roundTrip) roundTrip {
	return func(req *http.Request) (*http.Response, error) {
		req.Header.Set("Authorization", "Bearer secret")
		return do(req)
	}
}

// TestCredentialsStayAtTheServer verifies that a server cannot cause the headers of the
// configuration to be sent to another host, or without TLS.
func TestCredentialsStayAtTheServer(t *testing.T) {
	for name, tt := range map[string]struct {
		to   string // where a redirect leads
		says string // empty: it is followed
	}{
		"same host":      {"https://packs.example/other/" + first, ""},
		"another port":   {"https://PACKS.example:8443/other/" + first, ""},
		"another host":   {"https://cdn.example:444/" + first + "?token=t", "let debug_info::url name that host: cdn.example:444"},
		"a host below":   {"https://a.packs.example/" + first, "let debug_info::url name that host: a.packs.example"},
		"without TLS":    {"http://packs.example/other/" + first, "the server redirects from https to http"},
		"without an end": {packsURL, "the server redirects more than 10 times"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				r := run(t, newFetching(Options{}, withCredentials(func(req *http.Request) (*http.Response, error) {
					if asked++; req.URL.String() == tt.to {
						return answer(http.StatusOK, packOf(t, first)), nil
					}
					resp := answer(http.StatusFound, nil)
					resp.Header = http.Header{"Location": {tt.to}}
					return resp, nil
				})))
				r.use(first)
				switch tt.says {
				case "":
					assert.True(t, r.has(first))
					assert.Equal(t, 2, asked)
				default:
					assert.False(t, r.has(first))
					assert.Contains(t, r.health(), tt.says)
					assert.NotContains(t, r.health(), "token")
					assert.Equal(t, int64(1), r.refusedFor(Fetch))
				}
				if tt.to != packsURL && tt.says != "" {
					assert.Equal(t, 1, asked, "the other server is not asked")
				}
				r.stop()
			})
		})
	}
}
