// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/buildid"
)

// stateOf returns the state of a request and, if it waits, the origin.
func (q *queue) stateOf(id requestID) string {
	r := q.requests[id]
	switch {
	case r == nil:
		return "gone"
	case r.state == held:
		return "held"
	case r.state == taken:
		return "taken"
	case q.waiting[inDirectory].waiting[id] != nil:
		return "waits for directory"
	case q.waiting[atURL].waiting[id] != nil:
		return "waits for URL"
	}
	return "lost"
}

// TestQueue takes a request through the states. Each step is an outcome at the origin for which the request waits, or the
// "use" of the build after so many seconds, in which state it may be.
func TestQueue(t *testing.T) {
	const directory, url = "waits for directory", "waits for URL"
	var (
		errBad    = refuse(Damaged, errors.New("bad pack"))
		errServer = refuseAll(Fetch, errors.New("no server"))
	)
	outcomes := map[string]error{"found": nil, "missing": errNotFound, "refused": errBad, "broken": errServer, "stopped": errStopped}
	for _, tt := range []struct {
		steps, state string
		problem      string // of the queue
		refused      string // reasons, with numbers
		isFile       bool
		noURL        bool
	}{
		{steps: "", state: directory},
		{steps: "found", state: "gone"},
		{steps: "stopped", state: directory},
		{steps: "refused", state: "held", problem: "bad pack", refused: "damaged:1"},
		{steps: "broken", state: "held", problem: "directory: no server", refused: "fetch:1"},
		{steps: "missing", state: url},
		{steps: "missing", noURL: true, state: "held", refused: "not_found:1"},
		{steps: "missing", isFile: true, state: "held", refused: "not_found:1"},
		{steps: "found", isFile: true, state: "gone"},

		{steps: "missing found", state: "gone"},
		{steps: "missing stopped", state: url},
		{steps: "missing missing", state: "held", refused: "not_found:1"},
		{steps: "missing refused", state: "held", problem: "bad pack", refused: "damaged:1"},
		{steps: "missing broken", state: "held", problem: "URL: no server", refused: "fetch:1"},

		// The directory is due after a minute, and so is a URL that was broken.
		{steps: "refused use+59", state: "held", problem: "bad pack", refused: "damaged:1"},
		{steps: "refused use+60", state: directory, problem: "bad pack", refused: "damaged:1"},
		{steps: "refused use+60 found", state: "gone", refused: "damaged:1"},
		{steps: "refused use+60 missing missing", state: "held", refused: "damaged:1 not_found:1"},
		{steps: "broken use+59", state: "held", problem: "directory: no server", refused: "fetch:1"},
		{steps: "broken use+60 missing", state: url, refused: "fetch:1"},
		{steps: "missing broken use+59", state: "held", problem: "URL: no server", refused: "fetch:1"},
		{steps: "missing broken use+60 missing", state: url, problem: "URL: no server", refused: "fetch:1"},
		{steps: "missing broken use+60 missing stopped", state: url, problem: "URL: no server", refused: "fetch:1"},
		{steps: "missing broken use+60 missing missing", state: "held", refused: "fetch:1 not_found:1"},

		// A minute from when the URL was broken.
		{steps: "missing use+30 broken use+30", state: "held", problem: "URL: no server", refused: "fetch:1"},
		{steps: "missing use+30 broken use+60 missing", state: url, problem: "URL: no server", refused: "fetch:1"},
		{steps: "missing use+90 missing use+59", state: "held", refused: "not_found:1"},
		{steps: "missing use+90 missing use+60", state: directory, refused: "not_found:1"},

		// The URL is due ten minutes after it had no pack, or a bad one. Until then its answer counts.
		{steps: "missing refused use+60 missing", state: "held", problem: "bad pack", refused: "damaged:1"},
		{steps: "missing refused use+540 missing use+59", state: "held", problem: "bad pack", refused: "damaged:1"},
		{steps: "missing refused use+600 missing", state: url, problem: "bad pack", refused: "damaged:1"},
		{steps: "missing missing use+60 missing", state: "held", refused: "not_found:1"},
		{steps: "missing missing use+60 found", state: "gone", refused: "not_found:1"},
		{steps: "missing missing use+600 missing found", state: "gone", refused: "not_found:1"},
	} {
		t.Run(tt.steps, func(t *testing.T) {
			q, now := newQueue(!tt.noURL), time.Now()
			id := requestID{text: first, isFile: tt.isFile}
			q.add("A", id, now)
			for step := range strings.FieldsSeq(tt.steps) {
				if after, isUse := strings.CutPrefix(step, "use+"); isUse {
					seconds, err := strconv.Atoi(after)
					require.NoError(t, err)
					now = now.Add(time.Duration(seconds) * time.Second)
					q.add("B", id, now)
					continue
				}
				err, ok := outcomes[step]
				require.True(t, ok, step)
				at := inDirectory
				if q.stateOf(id) == url {
					at = atURL
				}
				got, ok := q.next(at)
				require.True(t, ok, step)
				require.Equal(t, id, got)
				require.Equal(t, "taken", q.stateOf(id))
				_, ok = q.next(at)
				require.False(t, ok, "it is taken once")
				hosts := q.finish(id, at, err, now)
				assert.Equal(t, err == nil, len(hosts) > 0)
			}
			assert.Equal(t, tt.state, q.stateOf(id))
			assert.Equal(t, tt.problem, q.problems())
			var refusals []string
			for reason, n := range q.refused {
				if n > 0 {
					refusals = append(refusals, fmt.Sprintf("%v:%d", Reason(reason), n))
				}
			}
			assert.ElementsMatch(t, strings.Fields(tt.refused), refusals)
		})
	}
}

// problems returns the problems of the origins and the packs.
func (q *queue) problems() string {
	var all []string
	for at, name := range []string{inDirectory: "directory: ", atURL: "URL: "} {
		if q.broken[at] != nil {
			all = append(all, name+q.broken[at].Error())
		}
	}
	if err := q.problem(); err != nil {
		all = append(all, err.Error())
	}
	return strings.Join(all, "; ")
}

// TestHostsOfFileID verifies that the hosts that used a file ID are known when its build is.
func TestHostsOfFileID(t *testing.T) {
	q, now, id := newQueue(true), time.Now(), requestID{text: first, isFile: true}
	for _, host := range []string{"A", "B", "A"} {
		q.add(host, id, now)
	}
	_, ok := q.next(inDirectory)
	require.True(t, ok)
	assert.Equal(t, []string{"A", "B"}, q.finish(id, inDirectory, nil, now))
}

// TestRequestsInUseStay although others are made up. Requests that are taken stay in any case.
func TestRequestsInUseStay(t *testing.T) {
	for name, tt := range map[string]struct {
		hosts []string // that use the build
		other string   // host that makes up builds
		times int      // how often it uses each of them
	}{
		"of the same host, which asked once more":    {[]string{"10.0.0.1", "10.0.0.1"}, "10.0.0.1", 1},
		"of another host":                            {[]string{"10.0.0.1"}, "10.0.0.2", 3},
		"of the same host, if another confirms them": {[]string{"10.0.0.2", "10.0.0.1"}, "10.0.0.2", 3},
		"of the collector itself":                    {[]string{""}, "10.0.0.2", 3},
	} {
		t.Run(name, func(t *testing.T) {
			q, now := newQueue(true), time.Now()
			q.add(tt.other, requestID{text: second}, now)
			id, ok := q.next(inDirectory)
			require.True(t, ok)
			for _, host := range tt.hosts {
				q.add(host, requestID{text: first}, now)
			}
			for i := range 20 * maxRequests {
				for range tt.times {
					q.add(tt.other, requestID{text: buildid.FileID(strconv.Itoa(i))}, now)
				}
			}
			assert.Len(t, q.requests, maxRequests)
			assert.Len(t, q.waiting[inDirectory].waiting, maxRequests-1)
			assert.Contains(t, q.requests, requestID{text: first})
			assert.Equal(t, "taken", q.stateOf(id))
			for id := range q.requests {
				q.remove(id)
			}
			assert.Empty(t, q.firstOf)
			assert.Empty(t, q.waiting[inDirectory].waiting)
		})
	}
}

// TestForget drops requests for unused builds, and the error of the URL with the last of them that is for the URL.
func TestForget(t *testing.T) {
	q, now := newQueue(true), time.Now()
	build, file, busy := requestID{text: first}, requestID{text: first, isFile: true}, requestID{text: second}
	q.add("A", build, now)
	q.next(inDirectory)
	q.finish(build, inDirectory, errNotFound, now)
	q.next(atURL)
	q.finish(build, atURL, refuseAll(Fetch, errors.New("no server")), now)
	q.add("A", file, now.Add(time.Minute))
	require.Equal(t, "URL: no server", q.problems())

	q.forget(now.Add(forgetAfter))
	assert.Equal(t, "held", q.stateOf(build))
	assert.Equal(t, "URL: no server", q.problems())
	q.forget(now.Add(forgetAfter + time.Second))
	assert.Equal(t, "gone", q.stateOf(build))
	assert.Equal(t, "waits for directory", q.stateOf(file))
	assert.Empty(t, q.problems())
	q.forget(now.Add(time.Hour))
	assert.Empty(t, q.requests)
	_, ok := q.next(inDirectory)
	assert.False(t, ok)

	q.add("A", busy, now)
	q.next(inDirectory)
	q.forget(now.Add(time.Hour))
	assert.Equal(t, "taken", q.stateOf(busy), "its search has not ended")
}

// TestForgetWhenDue keeps the request for an unused build until the URL is due. It does not keep the error of the URL.
func TestForgetWhenDue(t *testing.T) {
	for outcome, err := range map[string]error{"missing": errNotFound, "refused": refuse(Damaged, errors.New("bad pack"))} {
		q, now, id := newQueue(true), time.Now(), requestID{text: first}
		q.add("A", id, now)
		q.next(inDirectory)
		q.finish(id, inDirectory, errNotFound, now)
		q.next(atURL)
		q.finish(id, atURL, err, now)
		q.broken[atURL] = errors.New("no server")
		q.forget(now.Add(fetchAgain - 1))
		assert.Equal(t, "held", q.stateOf(id), outcome)
		require.NoError(t, q.broken[atURL], outcome)
		q.forget(now.Add(fetchAgain))
		assert.Equal(t, "gone", q.stateOf(id), outcome)
	}
}
