// SPDX-License-Identifier: Apache-2.0

package backendtest

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
)

// parcaProfiles are what Parca has to have of the messages that were added, by the type of profile.
type parcaProfiles map[string]*parcaProfile

// A parcaProfile has the totals of samples. Parca returns a sample that counts interruptions as time, in nanoseconds.
type parcaProfile struct {
	stacks map[string]int64                   // by their frames' identities
	labels map[string]int64                   // by conditions such as thread_name="worker"
	frames map[parcaFrame]map[parcaFrame]bool // by their identity
}

// A parcaFrame is what Parca stores of a frame.
type parcaFrame struct {
	address       uint64
	file, buildID string
	lines         string // with the functions
}

// identity returns the part of a frame that distinguishes it from others in a pprof profile that Parca writes. All frames
// with one identity are written as one of them: for example, those that have neither a module nor a function.
func (f parcaFrame) identity() parcaFrame {
	switch {
	case f.address == 0 || f.file == "" && f.buildID == "":
		return parcaFrame{lines: f.lines}
	case f.buildID != "":
		return parcaFrame{address: f.address, buildID: f.buildID}
	}
	return parcaFrame{address: f.address, file: f.file}
}

// identities identifies a stack.
func identities(stack []parcaFrame) string {
	var all []string
	for _, f := range stack {
		all = append(all, fmt.Sprintf("%+v", f.identity()))
	}
	return strings.Join(all, "\n")
}

// storedFrame returns a frame of a profile that Parca wrote.
func storedFrame(loc *profile.Location) (f parcaFrame) {
	f.address = loc.Address
	if loc.Mapping != nil {
		f.file, f.buildID = loc.Mapping.File, loc.Mapping.BuildID
	}
	for _, l := range loc.Line {
		f.lines += lineText(l.Function.Name, l.Function.SystemName, l.Function.Filename, l.Line)
	}
	return f
}

// sentFrame returns what Parca has to return of a frame. It returns the address only of a frame without lines.
func sentFrame(sent rewritetest.Frame) (f parcaFrame) {
	if len(sent.Lines) == 0 {
		f.address = sent.Address
	}
	if sent.Mapping != nil {
		f.file, f.buildID = sent.Mapping.File, sent.Mapping.BuildID
	}
	for _, l := range sent.Lines {
		f.lines += lineText(l.Name, l.System, l.File, l.Line)
	}
	return f
}

func lineText(name, system, file string, line int64) string {
	return fmt.Sprintf("%s (%s) at %s:%d;", name, system, file, line)
}

// add adds a message.
func (all parcaProfiles) add(pd pprofile.Profiles) {
	text := func(i int32) string { return pd.Dictionary().StringTable().At(int(i)) }
	samples := rewritetest.Samples(asParcaReads(pd)) // of all profiles, in order
	for _, rp := range pd.ResourceProfiles().All() {
		for _, sp := range rp.ScopeProfiles().All() {
			for _, p := range sp.Profiles().All() {
				sample, period := p.SampleType(), p.PeriodType()
				to := all.of(parcaType(sp.Scope().Name(), text(sample.TypeStrindex()), text(sample.UnitStrindex()),
					text(period.TypeStrindex()), text(period.UnitStrindex())))
				unit := int64(1)
				if text(sample.TypeStrindex()) == "samples" {
					unit = p.Period()
				}
				for _, s := range p.Samples().All() {
					to.add(samples[0], unit*total(samples[0]), labels(pd.Dictionary(), s.AttributeIndices()))
					samples = samples[1:]
				}
			}
		}
	}
}

// of returns the profile of a type.
func (all parcaProfiles) of(profileType string) *parcaProfile {
	if all[profileType] == nil {
		all[profileType] = &parcaProfile{make(map[string]int64), make(map[string]int64), make(map[parcaFrame]map[parcaFrame]bool)}
	}
	return all[profileType]
}

// add adds a sample.
func (p *parcaProfile) add(s rewritetest.Sample, total int64, labels []string) {
	var stack []parcaFrame
	for _, frame := range s.Stack {
		f := sentFrame(frame)
		if p.frames[f.identity()] == nil {
			p.frames[f.identity()] = make(map[parcaFrame]bool)
		}
		p.frames[f.identity()][f] = true
		stack = append(stack, f)
	}
	p.stacks[identities(stack)] += total
	for _, label := range labels {
		p.labels[label] += total
	}
}

// total returns the total of a sample: of its values or, if it has none, of its timestamps, each of which counts as one.
func total(s rewritetest.Sample) int64 {
	if len(s.Values) == 0 {
		return int64(len(s.Timestamps))
	}
	var n int64
	for _, v := range s.Values {
		n += v
	}
	return n
}

// labels returns the labels that Parca makes of attributes, as conditions. Only strings become labels.
func labels(d pprofile.ProfilesDictionary, indices pcommon.Int32Slice) (conditions []string) {
	for _, i := range indices.All() {
		if a := d.AttributeTable().At(int(i)); a.Value().Type() == pcommon.ValueTypeStr {
			conditions = append(conditions, fmt.Sprintf("%s=%q", labelName(d.StringTable().At(int(a.KeyStrindex()))), a.Value().Str()))
		}
	}
	return conditions
}

var notInLabels = regexp.MustCompile(`[^a-zA-Z0-9_]`)

// labelName returns the name of the label that Parca makes of an attribute's key, or of a scope's name.
func labelName(key string) string { return notInLabels.ReplaceAllString(key, "_") }

// parcaType returns the type of a profile that has a duration, as queries name it.
func parcaType(scope string, types ...string) string {
	return labelName(scope) + ":" + strings.Join(types, ":") + ":delta"
}

// asParcaReads returns a message in which each line has the function that stands in the table before its own. That is the one
// that Parca 0.28.0 reads (pkg/profile/encode.go). If a later Parca reads the right one, docs/backends.md must say so.
func asParcaReads(pd pprofile.Profiles) pprofile.Profiles {
	read := pprofile.NewProfiles()
	pd.CopyTo(read)
	for _, loc := range read.Dictionary().LocationTable().All() {
		for _, l := range loc.Lines().All() {
			l.SetFunctionIndex(max(l.FunctionIndex()-1, 0))
		}
	}
	return read
}
