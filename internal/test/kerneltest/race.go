// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"runtime/debug"
	"slices"
)

// HasRaceDetector reports whether this process was built with -race. It then takes several times as much memory.
func HasRaceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
