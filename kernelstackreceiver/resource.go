// SPDX-License-Identifier: Apache-2.0

package kernelstackreceiver

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/thishost"
)

// resource returns the attributes of the kernel that is sampled, as far as they are known. The processor "kernelsym" compares
// those of the host with the same identity, so it never takes them for another host's.
func resource(procfs, sysfs string, getenv func(string) string) map[string]string {
	attributes := map[string]string{"service.name": "kernel"}
	if release, err := os.ReadFile(filepath.Join(procfs, "sys", "kernel", "osrelease")); err == nil {
		attributes["os.version"] = strings.TrimSpace(string(release))
	}
	if id, err := buildid.OfKernel(sysfs); err == nil {
		attributes["os.build_id"] = id
	}
	host := thishost.Read(procfs, getenv)
	for _, key := range []string{thishost.Name, thishost.Node} {
		if i := slices.IndexFunc(host[key], utf8.ValidString); i >= 0 { // receivers refuse other strings
			attributes[key] = host[key][i]
			break
		}
	}
	return attributes
}
