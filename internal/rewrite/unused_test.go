// SPDX-License-Identifier: Apache-2.0

package rewrite_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// TestUnusedFramesAreNotCopied: a filter has left kernel frames that no sample uses. There is nothing to do,
// so a read-only message is not copied.
func TestUnusedFramesAreNotCopied(t *testing.T) {
	m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: text + offA + 1, Type: "kernel"})
	for i := range 1000 {
		m.Sample(Frame{Address: uint64(0x1000 + i), Type: "native"})
	}
	m.Profiles.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).Samples().RemoveIf(func(s pprofile.Sample) bool {
		return s.StackIndex() == 1
	})
	m.Profiles.MarkReadOnly()
	r, s := rewrite.New(rewrite.Options{}), testSnapshot(t)
	assert.Less(t, testing.AllocsPerRun(10, func() { r.Rewrite(m.Profiles, rewrite.Sources{Snapshot: fixed(s)}) }), 100.0)
}

// TestClockOffOfUnusedFrames: the times of samples without kernel frames are not counted as off.
func TestClockOffOfUnusedFrames(t *testing.T) {
	k := marks()
	k.SharedTrampolines = true
	m := rewritetest.NewMessage().Profile(nil, "").Sample(Frame{Address: tramp + 0x40, Type: "kernel"}).Sample(Frame{Address: 0x1234, Type: "native"})
	timed(m, nowBoot+1e6*ms)
	m.Profiles.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).Samples().RemoveIf(func(s pprofile.Sample) bool {
		return s.StackIndex() == 1
	})
	r := rewrite.New(withHistory)
	known := knownAt(t)
	s := trampolineSnapshot(t, k)
	known.Snapshot = func() *timeline.Snapshot { return s }
	r.Rewrite(m.Profiles, known)
	assert.Zero(t, r.ClockOff())
}
