// SPDX-License-Identifier: Apache-2.0

package kubernetestest

import (
	"bufio"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// received reads the output of a backend.
type received struct {
	t      *testing.T
	file   string
	offset int64 // where new output begins
}

// newReceived returns a reader of a file in a directory, to which a backend of any user can write.
func newReceived(t *testing.T, n *node) *received {
	t.Helper()
	dir := filepath.Join(n.dir, "received")
	require.NoError(t, os.Mkdir(dir, 0o755)) //nolint:gosec // a pod writes to it
	require.NoError(t, os.Chmod(dir, 0o777)) //nolint:gosec // likewise
	return &received{t: t, file: filepath.Join(dir, "profiles.json")}
}

// skip skips what has arrived so far.
func (r *received) skip() {
	r.t.Helper()
	info, err := os.Stat(r.file)
	require.NoError(r.t, err)
	r.offset = info.Size()
}

// A delivery is everything that arrived under one node's name.
type delivery struct {
	named, bare int // kernel frames
	intervals   []interval
}

// An interval is the time of a profile.
type interval struct{ start, end int64 } // ns

// overlap returns by how much the longest of two intervals that follow each other overlap, in nanoseconds. The profiles of one
// message, of the host and of its containers, end at the same time; the last to begin has the interval of the message.
func (d *delivery) overlap() (longest int64) {
	begins := make(map[int64]int64) // by the end
	for _, i := range d.intervals {
		begins[i.end] = max(begins[i.end], i.start)
	}
	last := int64(0)
	for _, end := range slices.Sorted(maps.Keys(begins)) {
		if last != 0 {
			longest = max(longest, last-begins[end])
		}
		last = end
	}
	return longest
}

// read returns the profiles that have arrived since skip, by the name of their node.
func (r *received) read() map[string]*delivery {
	r.t.Helper()
	f, err := os.Open(r.file)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(r.t, err)
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() < r.offset {
		r.offset = 0 // another backend has begun the file again
	}
	_, err = f.Seek(r.offset, 0)
	require.NoError(r.t, err)
	nodes := make(map[string]*delivery)
	lines := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nodes // the last line may not be whole
		}
		pd, err := new(pprofile.JSONUnmarshaler).UnmarshalProfiles(line)
		if err != nil { // skip began in a line
			continue
		}
		for _, resource := range pd.ResourceProfiles().All() {
			name, _ := resource.Resource().Attributes().Get("k8s.node.name")
			d := nodes[name.AsString()]
			if d == nil {
				d = new(delivery)
				nodes[name.AsString()] = d
			}
			for _, scope := range resource.ScopeProfiles().All() {
				for _, p := range scope.Profiles().All() {
					d.add(pd.Dictionary(), p)
				}
			}
		}
	}
}

// add counts the kernel frames of a profile.
func (d *delivery) add(dic pprofile.ProfilesDictionary, p pprofile.Profile) {
	start := int64(p.Time())                                                            //nolint:gosec // until 2262
	d.intervals = append(d.intervals, interval{start, start + int64(p.DurationNano())}) //nolint:gosec // likewise
	for _, sample := range p.Samples().All() {
		for _, index := range dic.StackTable().At(int(sample.StackIndex())).LocationIndices().All() {
			location := dic.LocationTable().At(int(index))
			attributes, err := pprofile.FromAttributeIndices(dic.AttributeTable(), location, dic)
			if kind, _ := attributes.Get("profile.frame.type"); err != nil || kind.AsString() != "kernel" {
				continue
			}
			if location.Lines().Len() > 0 {
				d.named++
			} else {
				d.bare++
			}
		}
	}
}
