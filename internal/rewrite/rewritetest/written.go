// SPDX-License-Identifier: Apache-2.0

package rewritetest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.opentelemetry.io/collector/pdata/pprofile"
)

// checkValidity checks that all violations of the format are still there, and that there are no new
// ones.
func checkValidity(before, after pprofile.Profiles) error {
	was, is := problems(before), problems(after)
	var errs []error
	for _, text := range slices.Sorted(maps.Keys(is.without(was))) {
		errs = append(errs, fmt.Errorf("not valid any more: %s", text))
	}
	for _, text := range slices.Sorted(maps.Keys(was.without(is))) {
		errs = append(errs, fmt.Errorf("contract 1.4: valid now: %s", text))
	}
	return errors.Join(errs...)
}

func problems(pd pprofile.Profiles) refused {
	r := make(refused)
	for _, err := range validity(pd) {
		r[err.Error()] = true
	}
	return r
}

// checkWritten checks the frames and functions that a rewrite has written.
func checkWritten(before, after pprofile.Profiles) error {
	if len(dangling(before)) > 0 {
		return checkUntouched(before, after)
	}
	var errs []error
	for _, text := range slices.Sorted(maps.Keys(refusals(after, false).without(refusals(before, true)))) {
		errs = append(errs, errors.New(text))
	}
	d := after.Dictionary()
	for i := before.Dictionary().FunctionTable().Len(); i < d.FunctionTable().Len(); i++ {
		if f := d.FunctionTable().At(i); i > 0 && (textOf(d, f.NameStrindex()) == "" || textOf(d, f.SystemNameStrindex()) == "") {
			errs = append(errs, fmt.Errorf("contract 3.4: new function %d lacks a name", i))
		}
	}
	var names frameNames
	profiler := usersOf(after, isProfilers)
	came := make(map[string]bool) // locations that arrived with the message, unchanged or copied
	for _, loc := range before.Dictionary().LocationTable().All() {
		came[namedKey(loc)] = true
	}
	for i := range d.LocationTable().Len() {
		if profiler[int32(i)] || came[namedKey(d.LocationTable().At(i))] {
			continue
		}
		f := FrameAt(d, int32(i))
		errs = append(errs, names.add(&f))
	}
	return errors.Join(errs...)
}

// checkUntouched checks that nothing at all was changed, apart from addresses that are hidden.
func checkUntouched(before, after pprofile.Profiles) error {
	hidden := pprofile.NewProfiles()
	before.CopyTo(hidden)
	before = hidden
	locations := after.Dictionary().LocationTable()
	for i, loc := range before.Dictionary().LocationTable().All() {
		if loc.Address()>>63 != 0 && i < locations.Len() && locations.At(i).Address() == 0 {
			loc.SetAddress(0)
		}
	}
	was, err := marshaled(before)
	if err != nil {
		return err
	}
	is, err := marshaled(after)
	if err == nil && !bytes.Equal(was, is) {
		err = errors.New("contract 1.4: a message with dangling references was changed")
	}
	return err
}

// marshaled returns a message's bytes. It marshals a copy, because marshaling changes a message.
func marshaled(pd pprofile.Profiles) ([]byte, error) {
	c := pprofile.NewProfiles()
	pd.CopyTo(c)
	return (&pprofile.ProtoMarshaler{}).MarshalProfiles(c)
}
