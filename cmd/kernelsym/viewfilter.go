// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"maps"
	"net/url"
	"slices"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/flame"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/profilefile"
)

// viewFilter selects samples by the process and the container that they belong to.
type viewFilter struct {
	names   map[process]string
	hosts   map[string]bool
	wanted  map[string]string // by the name of a choice; empty for all samples
	choices []choice
}

// choice is a property of samples that can be chosen.
type choice struct {
	name, plural string
	values       map[string]int64 // with the sum of their samples
}

// newViewFilter returns a filter for samples that selects what a query of the page asks for.
func newViewFilter(samples []*profile.Sample, query url.Values) *viewFilter {
	f := &viewFilter{names: make(map[process]string), hosts: make(map[string]bool), wanted: make(map[string]string)}
	for _, s := range samples {
		p := processOf(s)
		f.hosts[p.host] = true
		if name := label(s, semconv.ThreadNameKey); p.id != "" && p.id == label(s, semconv.ThreadIDKey) && name != "" {
			f.names[p] = name
		}
	}
	f.choices = []choice{{"process", "processes", make(map[string]int64)}, {"container", "containers", make(map[string]int64)}}
	for _, s := range samples {
		for _, c := range f.choices {
			if value := f.of(s, c.name); value != "" {
				c.values[value] += s.Value[0]
			}
		}
	}
	for _, c := range f.choices {
		f.wanted[c.name] = query.Get(c.name)
	}
	return f
}

// process identifies a process. Its id is empty if it is not known, its host if the file does not say it.
type process struct{ host, id string }

func processOf(s *profile.Sample) process {
	p := process{id: label(s, semconv.ProcessPIDKey)}
	for _, key := range profilefile.HostKeys {
		p.host = cmp.Or(p.host, label(s, key))
	}
	return p
}

func label(s *profile.Sample, key attribute.Key) string {
	if values := s.Label[string(key)]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// of returns the value that a sample has for a choice, empty if it has none. It is printable, because the page shows it and
// sends it back.
func (f *viewFilter) of(s *profile.Sample, choice string) string {
	if choice == "container" {
		return printable.Text(label(s, semconv.ContainerIDKey))
	}
	p := processOf(s)
	text := p.id
	if name := f.names[p]; name != "" {
		text = printable.Text(name) + "[" + p.id + "]"
	}
	if p.id != "" && p.host != "" && len(f.hosts) > 1 {
		text += " on " + printable.Text(p.host)
	}
	return text
}

// selects reports whether a sample is selected.
func (f *viewFilter) selects(s *profile.Sample) bool {
	for name, value := range f.wanted {
		if value != "" && f.of(s, name) != value {
			return false
		}
	}
	return true
}

// mostChoices is the maximum number of values that a page offers.
const mostChoices = 200

// page returns the choices of the page: those for which there are different samples, the values with most samples first.
func (f *viewFilter) page() (filters []flame.Filter) {
	for _, c := range f.choices {
		values := slices.SortedFunc(maps.Keys(c.values), func(a, b string) int {
			return cmp.Or(cmp.Compare(c.values[b], c.values[a]), cmp.Compare(a, b))
		})
		if len(values) > 1 || f.wanted[c.name] != "" {
			filters = append(filters, flame.Filter{
				Name: c.name, Plural: c.plural, Values: values[:min(len(values), mostChoices)], Selected: f.wanted[c.name],
			})
		}
	}
	return filters
}
