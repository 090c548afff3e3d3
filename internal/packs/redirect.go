// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// maxRedirects is the limit of net/http.
const maxRedirects = 10

// staysAt returns a client like the given one that follows no redirect to another host, and
// none from https to http. The client's transport adds the headers of debug_info::http, which
// can hold credentials, to every request, whichever host it goes to.
func staysAt(client *http.Client) *http.Client {
	own := *client
	own.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		from, to := via[len(via)-1].URL, req.URL
		switch {
		case !strings.EqualFold(from.Hostname(), to.Hostname()):
			return fmt.Errorf("the server redirects to another host, which is not followed: let debug_info::url name that host: %s", to.Host)
		case from.Scheme == "https" && to.Scheme != "https":
			return errors.New("the server redirects from https to http, which is not followed: let it redirect to https")
		case len(via) >= maxRedirects:
			return errors.New("the server redirects more than 10 times")
		}
		return nil
	}
	return &own
}
