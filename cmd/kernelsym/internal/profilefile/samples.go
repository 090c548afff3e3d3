// SPDX-License-Identifier: Apache-2.0

package profilefile

import (
	"fmt"

	"go.opentelemetry.io/collector/pdata/pprofile"
)

// A Sample is a sample of a message, with what it belongs to.
type Sample struct {
	Resource pprofile.ResourceProfiles
	Profile  pprofile.Profile
	Sample   pprofile.Sample
	Stack    pprofile.Stack
}

// EachSample calls visit with the samples of a message until visit returns an error. Its own error wraps ErrInvalid.
func EachSample(pd pprofile.Profiles, visit func(*Sample) error) error {
	stacks := pd.Dictionary().StackTable()
	for _, rp := range pd.ResourceProfiles().All() {
		for _, sp := range rp.ScopeProfiles().All() {
			for _, p := range sp.Profiles().All() {
				for _, s := range p.Samples().All() {
					if uint(s.StackIndex()) >= uint(stacks.Len()) {
						return fmt.Errorf("%w: stack %d", ErrInvalid, s.StackIndex())
					}
					if err := visit(&Sample{rp, p, s, stacks.At(int(s.StackIndex()))}); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}
