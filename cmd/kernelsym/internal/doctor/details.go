// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"time"

	"github.com/kernelsym/kernelsym/internal/timeline"
)

// Details are the settings and figures behind a report, for bug reports.
type Details struct {
	Environment Environment `json:"environment"`

	Sources  []Source       `json:"sources"`
	Builds   []Build        `json:"builds"`            // only those with a build id
	Programs map[string]int `json:"programs"`          // BPF programs by type, if their type is known
	Metrics  []string       `json:"metrics,omitempty"` // lines that the collector serves about kernelsym and its process
}

// A Source describes how reading the symbols of a source went.
type Source struct {
	Name         string         `json:"name"`
	Milliseconds float64        `json:"milliseconds"`
	Symbols      map[string]int `json:"symbols"` // by origin
	Images       int            `json:"images"`
	Memory       int64          `json:"memory_bytes"`
	Blind        float64        `json:"blind_seconds"`
	Error        string         `json:"error,omitempty"`
}

// A Build is the running core kernel or a loaded module.
type Build struct {
	Name    string `json:"name"`
	BuildID string `json:"build_id"`
}

// add adds the result of a source. t is nil if the source published nothing.
func (d *Details) add(name string, t *timeline.Table, err error, took time.Duration) {
	s := Source{Name: name, Milliseconds: float64(took.Microseconds()) / 1000, Symbols: make(map[string]int)}
	if err != nil {
		s.Error = err.Error()
	}
	if t != nil {
		for origin, count := range t.Count() {
			if count.Symbols > 0 {
				s.Symbols[timeline.Origin(origin).String()] = count.Symbols
			}
			s.Memory += count.Memory
		}
		s.Images, s.Blind = len(t.Loaded()), t.BlindTime().Seconds()
		d.addImages(t.Loaded())
	}
	d.Sources = append(d.Sources, s)
}

func (d *Details) addImages(images []*timeline.Image) {
	seen := make(map[uint32]bool) // a program has several functions
	for _, image := range images {
		if image.BuildID() != "" {
			d.Builds = append(d.Builds, Build{image.Name(), image.BuildID()})
		}
		if p := image.Program; p != nil && !seen[p.ID] {
			seen[p.ID] = true
			d.Programs[p.Type]++
		}
	}
}
