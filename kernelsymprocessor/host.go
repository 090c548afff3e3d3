// SPDX-License-Identifier: Apache-2.0

package kernelsymprocessor

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/kernelsym/kernelsym/internal/thishost"
)

// A Host identifies the machine that this process runs on.
type Host struct {
	known thishost.Identity
}

// ThisHost returns this machine. procfs is where its /proc is mounted.
func ThisHost(procfs string, getenv func(string) string) *Host {
	return &Host{thishost.Read(procfs, getenv)}
}

// IsKnown reports whether there is an identity that resources can be compared with.
func (h *Host) IsKnown() bool { return len(h.known) > 0 }

// IsForeign reports whether a resource is another host's: one of the attributes
// that identify it is known of this host and has another value, and none has
// the same.
func (h *Host) IsForeign(r pcommon.Resource) bool {
	foreign := false
	for key, known := range h.known {
		value, ok := r.Attributes().Get(key)
		if !ok || value.Type() != pcommon.ValueTypeStr || value.Str() == "" {
			continue
		}
		for _, k := range known {
			switch {
			case sameHost(key, value.Str(), k):
				return false
			case canTell(key, value.Str(), k):
				foreign = true
			}
		}
	}
	return foreign
}

// sameHost compares two values of an attribute. Of names, one can be the first
// label of the other.
func sameHost(key, a, b string) bool { return isOrExtends(key, a, b) || isOrExtends(key, b, a) }

// isOrExtends reports whether a value of an attribute is another one or, for names, has further labels after it. It reads
// no more of the value than the other is long, because many resources of a message can share one long string.
func isOrExtends(key, value, other string) bool {
	n := len(other)
	return len(value) >= n && strings.EqualFold(value[:n], other) &&
		(len(value) == n || key == thishost.Name && value[n] == '.')
}

// canTell reports whether two values differ because the hosts do. A host has several kinds of IDs, such as a machine ID
// and the ID that a cloud gave it.
func canTell(key, a, b string) bool {
	return key != thishost.ID || len(a) == len(b) && strings.Count(a, "-") == strings.Count(b, "-")
}
