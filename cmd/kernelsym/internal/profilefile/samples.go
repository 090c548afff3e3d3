// SPDX-License-Identifier: Apache-2.0

package profilefile

import (
	"fmt"

	"go.opentelemetry.io/collector/pdata/pprofile"
)

// A Sample is a sample of a message, with what it belongs to.
type Sample struct {
	Resource pprofile.ResourceProfiles
	Sample   pprofile.Sample
	Stack    pprofile.Stack
}

// EachSample calls visit with the samples of a message until visit returns an error. Its own error wraps ErrInvalid.
func EachSample(pd pprofile.Profiles, visit func(*Sample) error) error {
	for _, rp := range pd.ResourceProfiles().All() {
		for _, sp := range rp.ScopeProfiles().All() {
			for _, p := range sp.Profiles().All() {
				err := EachSampleOf(pd.Dictionary(), p, func(s pprofile.Sample, stack pprofile.Stack) error {
					return visit(&Sample{rp, s, stack})
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// EachSampleOf does that with the samples of a profile.
func EachSampleOf(d pprofile.ProfilesDictionary, p pprofile.Profile, visit func(pprofile.Sample, pprofile.Stack) error) error {
	stacks := d.StackTable()
	for _, s := range p.Samples().All() {
		if uint(s.StackIndex()) >= uint(stacks.Len()) {
			return fmt.Errorf("%w: stack %d", ErrInvalid, s.StackIndex())
		}
		if err := visit(s, stacks.At(int(s.StackIndex()))); err != nil {
			return err
		}
	}
	return nil
}
