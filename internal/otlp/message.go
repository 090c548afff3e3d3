// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"iter"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// A Message is a profiles message with indices of its tables. Its zero value is ready for [Message.Open].
// It is not safe for concurrent use.
type Message struct {
	Profiles   pprofile.Profiles
	Strings    Strings
	Attributes Attributes
	Mappings   Mappings
	Functions  Functions
	Locations  Locations
	Stacks     Stacks
}

// Open begins with a message. It reads nothing.
func (m *Message) Open(pd pprofile.Profiles) {
	m.setTables(pd)
	m.Strings.open()
	m.Attributes.open(m)
	m.Mappings.open(m)
	m.Functions.open(m)
	m.Locations.open()
	m.Stacks.open()
}

// Close forgets the message, and keeps memory for the next one.
func (m *Message) Close() {
	m.Profiles = pprofile.Profiles{}
	m.Strings.table = pcommon.StringSlice{}
	m.Attributes.close()
	m.Mappings.close()
	m.Functions.table = pprofile.FunctionSlice{}
	m.Locations.table = pprofile.LocationSlice{}
	m.Stacks.table = pprofile.StackSlice{}
}

func (m *Message) setTables(pd pprofile.Profiles) {
	m.Profiles = pd
	d := pd.Dictionary()
	m.Strings.table = d.StringTable()
	m.Attributes.table = d.AttributeTable()
	m.Mappings.table = d.MappingTable()
	m.Functions.table = d.FunctionTable()
	m.Locations.table = d.LocationTable()
	m.Stacks.table = d.StackTable()
}

// MakeOwn replaces a message that is read-only, because other consumers share it, by a copy. All indices
// remain the same.
func (m *Message) MakeOwn() {
	if !m.Profiles.IsReadOnly() {
		return
	}
	c := pprofile.NewProfiles()
	m.Profiles.CopyTo(c)
	m.setTables(c)
}

// A ProfileOf is a profile of a message, and where it stands.
type ProfileOf struct {
	Number   int // of the profile in the message, from 0
	Resource int // the number of its resource
	Scope    string
	Profile  pprofile.Profile
}

// EachProfile yields the profiles of the message.
func (m *Message) EachProfile() iter.Seq[ProfileOf] {
	return func(yield func(ProfileOf) bool) {
		number := 0
		for i, rp := range m.Profiles.ResourceProfiles().All() {
			for _, sp := range rp.ScopeProfiles().All() {
				scope := sp.Scope().Name()
				for _, profile := range sp.Profiles().All() {
					if !yield(ProfileOf{number, i, scope, profile}) {
						return
					}
					number++
				}
			}
		}
	}
}

// Entries returns the number of entries in the tables.
func (m *Message) Entries() int {
	return m.Strings.table.Len() + m.Attributes.table.Len() + m.Mappings.table.Len() + m.Functions.table.Len() +
		m.Locations.table.Len() + m.Stacks.table.Len()
}
