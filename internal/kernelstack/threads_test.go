// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// nameSession returns a session, and a function that sets the name of thread 11 in /proc.
func nameSession(t *testing.T) (s *session, setName func(string)) {
	t.Helper()
	sampler := &Sampler{
		Options: Options{MaxSamples: 100, Procfs: t.TempDir()},
		Send:    func(context.Context, *Message) {},
	}
	dir := filepath.Join(sampler.Procfs, "11")
	require.NoError(t, os.Mkdir(dir, 0o755))
	return newSession(sampler, nil, perfring.Sampling{Frequency: 97}, nil, time.Now()), func(name string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "comm"), []byte(name+"\n"), 0o600))
	}
}

// sampleAt returns a sample of thread 11. Its stack depends on the time, so samples are not
// merged.
func sampleAt(time int64) perfring.Record {
	return perfring.Record{Type: perfring.TypeSample, Time: time, PID: 11, TID: 11, Stack: []uint64{leaf + uint64(time)}}
}

// TestNameBeforeExec: the name that a thread had before the one in /proc is not known.
func TestNameBeforeExec(t *testing.T) {
	s, setName := nameSession(t)
	setName("ls")
	s.add(t.Context(), perfring.Batch{Records: []perfring.Record{
		{Type: perfring.TypeFork, Time: 1, PID: 11, TID: 11, Parent: 5},
		sampleAt(2),
		{Type: perfring.TypeComm, Time: 3, PID: 11, TID: 11, Comm: "ls"},
		sampleAt(4),
	}})
	assert.Equal(t, []string{"", "ls"}, threadNames(s))
}

// TestNameOfANumberUsedAnew: /proc can hold the name of a later thread with the same number.
func TestNameOfANumberUsedAnew(t *testing.T) {
	s, setName := nameSession(t)
	setName("new")
	s.add(t.Context(), perfring.Batch{Records: []perfring.Record{
		sampleAt(1),
		{Type: perfring.TypeExit, Time: 2, PID: 11, TID: 11},
		{Type: perfring.TypeFork, Time: 3, PID: 11, TID: 11, Parent: 5},
		sampleAt(4),
	}})
	assert.Equal(t, []string{"", "new"}, threadNames(s))
}

// TestNameThatIsNotUTF8: the kernel may cut a name in the middle of a character.
func TestNameThatIsNotUTF8(t *testing.T) {
	name := "RenderThread-Göttingen"[:15]
	s, setName := nameSession(t)
	setName(name)
	s.add(t.Context(), perfring.Batch{Records: []perfring.Record{sampleAt(1)}})
	s.add(t.Context(), perfring.Batch{Records: []perfring.Record{
		{Type: perfring.TypeComm, Time: 2, PID: 11, TID: 11, Comm: "\xff\xffsh"}, sampleAt(3),
	}})
	assert.Equal(t, []string{"RenderThread-G\uFFFD", "\uFFFDsh"}, threadNames(s))
}

// TestNamesAfterALoss: a record with a new name may be lost. Until the loss is over, /proc does
// not help either: the name there may be newer than the sample.
func TestNamesAfterALoss(t *testing.T) {
	s, setName := nameSession(t)
	setName("bash")
	s.add(t.Context(), perfring.Batch{Records: []perfring.Record{sampleAt(1)}})
	setName("ls")
	s.add(t.Context(), perfring.Batch{
		Lost: 1, Blind: []perfring.Interval{{From: 2, To: 10}},
		Records: []perfring.Record{
			{Type: perfring.TypeComm, Time: 2, PID: 11, TID: 11, Comm: "sh"}, sampleAt(9), sampleAt(10),
		},
	})
	assert.Equal(t, []string{"bash", "", "ls"}, threadNames(s))
}
