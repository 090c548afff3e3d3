// SPDX-License-Identifier: Apache-2.0

// Package timelinetest makes images for tests.
package timelinetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// A Text describes an image that has symbols of its own: the core kernel, by default, or a module.
type Text struct {
	Origin     timeline.Origin
	Name       string // by default that of the core kernel
	BuildID    string
	Base       uint64
	Start, End uint64
	Gap        symtab.Range
	Landmarks  *symtab.Landmarks
	Lifetime   timeline.Interval // by default always
}

// A Symbol is where a symbol of a text starts, in bytes after Start, and its name.
type Symbol struct {
	Offset uint64
	Name   string
}

// NewImage returns an image with these symbols.
func NewImage(t testing.TB, text Text, symbols ...Symbol) *timeline.Image {
	t.Helper()
	info := symtab.TextInfo{
		Start: text.Start, End: text.End, BuildID: text.BuildID, Base: text.Base, Gap: text.Gap, Landmarks: text.Landmarks,
	}
	if text.BuildID != "" {
		info.FileID = buildid.FileID(text.BuildID)
	}
	var s symtab.Sorter
	for _, symbol := range symbols {
		s.Add(text.Start+symbol.Offset, 't', []byte(symbol.Name))
	}
	built, err := s.Build(info)
	require.NoError(t, err)
	if text.Name == "" {
		text.Name = timeline.KernelName
	}
	if text.Lifetime == (timeline.Interval{}) {
		text.Lifetime = timeline.Always
	}
	return timeline.NewImage(text.Origin, text.Name, built, text.Lifetime)
}
