// SPDX-License-Identifier: Apache-2.0

package rewritetest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

const (
	addr   = 0xffffffff81000010
	someID = "0123456789abcdef0123456789abcdef"
)

func named(offset uint64, name string) Frame {
	return Frame{Address: offset, Type: "kernel", Mapping: &Mapping{File: "vmlinux", FileID: someID}, Lines: []Line{{Name: name, System: name}}}
}

func messageOf(frames ...Frame) *Message {
	return NewMessage().Profile(nil, "scope").Sample(frames...)
}

// TestCheckSent verifies that CheckSent notices each demand that is broken, and accepts what breaks
// none.
func TestCheckSent(t *testing.T) {
	has := func(flag string, value bool) *Mapping {
		return &Mapping{File: "vmlinux", FileID: someID, Attributes: map[string]any{"pprof.mapping.has_" + flag: value}}
	}
	lines := []Line{{Name: "a", System: "a", File: "a.c", Line: 7}}
	twoValues := messageOf(Frame{Address: 1, Type: "native"})
	twoValues.LastSample().Values().Append(1)
	noValues := messageOf(Frame{Address: 1, Type: "native"})
	noValues.LastSample().Values().FromRaw(nil)
	twoTypes := messageOf(named(1, "a"))
	twoTypes.Profiles.Dictionary().LocationTable().At(1).AttributeIndices().Append(twoTypes.Attribute("profile.frame.type", "native"))
	dangling := messageOf(named(1, "a"))
	dangling.Profiles.Dictionary().LocationTable().At(1).SetMappingIndex(9)

	for want, m := range map[string]*Message{
		"no frame type":               messageOf(Frame{Address: addr}),
		"has attributes but no file":  messageOf(Frame{Address: 1, Type: "kernel", Mapping: &Mapping{File: "vmlinux", BuildID: "ab"}}),
		`file ID "aa55"`:              messageOf(Frame{Address: 1, Type: "kernel", Mapping: &Mapping{File: "vmlinux", FileID: "aa55"}}),
		"is not in its mapping":       messageOf(Frame{Address: addr, Type: "kernel", Mapping: &Mapping{File: "x", Start: 1, Limit: 2}}),
		"has no system name":          messageOf(Frame{Address: addr, Type: "kernel", Lines: []Line{{Name: "a"}}}),
		"is a and b":                  messageOf(named(1, "a"), named(1, "b")),
		"has_functions is false":      messageOf(Frame{Type: "kernel", Mapping: has("functions", false), Lines: lines}),
		"has_filenames is false":      messageOf(Frame{Type: "kernel", Mapping: has("filenames", false), Lines: lines}),
		"has_line_numbers is true":    messageOf(Frame{Address: 1, Type: "kernel", Mapping: has("line_numbers", true)}),
		"a sample of several values":  twoValues,
		"a sample without values":     noValues,
		"2 attributes profile.frame":  twoTypes,
		"index 9 is beyond its table": dangling,
	} {
		require.ErrorContains(t, CheckSent(m.Profiles), want)
	}
	for _, m := range []*Message{
		messageOf(named(1, "a"), named(2, "b"), named(1, "a")),
		messageOf(Frame{Address: 0xffffffffff600000}, Frame{Address: 1, Mapping: &Mapping{File: "app", BuildID: "ab"}}), // user space
		messageOf(Frame{Address: addr, Mapping: &Mapping{File: "[guest.kernel.kallsyms]"}}),
		messageOf(Frame{Address: addr, Lines: []Line{{Name: "a", System: "a"}}}), // it arrived with a name
		NewMessage().Profile(nil, "go.opentelemetry.io/ebpf-profiler").Sample(named(1, "a"), named(1, "b")),
	} {
		require.NoError(t, CheckSent(m.Profiles))
	}
}

// TestRun verifies that the name of a frame counts for the whole run.
func TestRun(t *testing.T) {
	var run Run
	require.NoError(t, run.Check(messageOf(named(1, "a")).Profiles))
	require.NoError(t, run.Check(messageOf(named(2, "b")).Profiles))
	require.ErrorContains(t, run.Check(messageOf(named(2, "a")).Profiles), "is b and a")
}

// TestCheckRewritten verifies that CheckRewritten notices what a rewrite must not do.
func TestCheckRewritten(t *testing.T) {
	for want, do := range map[string]func(m *Message){
		"several values":             func(m *Message) { m.LastSample().Values().Append(1) },
		"nothing uses new entry":     func(m *Message) { m.Profiles.Dictionary().StringTable().Append("new") },
		"not valid any more":         func(m *Message) { m.LastSample().SetStackIndex(7) },
		"lacks a name":               func(m *Message) { m.Sample(Frame{Address: 5, Lines: []Line{{Name: "a"}}}) },
		"attributes but no file":     func(m *Message) { m.Sample(Frame{Address: 5, Type: "kernel", Mapping: &Mapping{BuildID: "ab"}}) },
		"is a and b":                 func(m *Message) { m.Sample(named(1, "a"), named(1, "b")) },
		"outside of the dictionary":  func(m *Message) { m.Profile(nil, "") },
		"string table: entry 0 was ": func(m *Message) { m.Profiles.Dictionary().StringTable().SetAt(0, "x") },
	} {
		m := messageOf(Frame{Address: addr, Type: "kernel"})
		before := pprofile.NewProfiles()
		m.Profiles.CopyTo(before)
		require.NoError(t, CheckRewritten(before, m.Profiles))
		do(m)
		assert.ErrorContains(t, CheckRewritten(before, m.Profiles), want)
	}
}

// TestNothingBecomesValid verifies that CheckRewritten notices if an index beyond its table becomes
// valid (contract 1.4).
func TestNothingBecomesValid(t *testing.T) {
	m := messageOf(Frame{Address: addr, Type: "kernel"})
	next := int32(m.Profiles.Dictionary().AttributeTable().Len())
	m.LastSample().AttributeIndices().Append(next)
	before := pprofile.NewProfiles()
	m.Profiles.CopyTo(before)
	require.NoError(t, CheckRewritten(before, m.Profiles))
	m.Profiles.Dictionary().LocationTable().At(1).AttributeIndices().Append(m.Attribute("new", "attribute"))
	assert.ErrorContains(t, CheckRewritten(before, m.Profiles), "valid now")
}
