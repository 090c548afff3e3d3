// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/perfring"
)

// A fakeThread has the records that a test adds.
type fakeThread struct {
	records []perfring.Record
	err     error
}

func (f *fakeThread) Records() ([]perfring.Record, error) { return f.records, f.err }

// leave adds the records of a thread that leaves its CPU.
func (f *fakeThread) leave(how perfring.Switch, stack ...uint64) {
	f.records = append(f.records,
		perfring.Record{Type: perfring.TypeSample, Stack: stack}, perfring.Record{Type: perfring.TypeSwitch, Switch: how})
}

// wake adds the record of a thread that gets a CPU.
func (f *fakeThread) wake() {
	f.records = append(f.records, perfring.Record{Type: perfring.TypeSwitch, Switch: perfring.SwitchIn})
}

// A fakeFile has a text. Reading it calls a function.
type fakeFile struct {
	io.ReaderAt
	onRead func()
}

func newFile(text string, onRead func()) fakeFile { return fakeFile{strings.NewReader(text), onRead} }

func (f fakeFile) ReadAt(b []byte, at int64) (int, error) {
	f.onRead()
	return f.ReaderAt.ReadAt(b, at)
}

// TestContract_10_5_NamesAreOfTheSameWait verifies that names are kept only if the thread was in one wait from a look before
// they were read until after that.
func TestContract_10_5_NamesAreOfTheSameWait(t *testing.T) {
	for _, tt := range []struct {
		name           string
		before, during func(f *fakeThread)
		kept           bool
	}{
		{"one wait", func(f *fakeThread) { f.leave(perfring.SwitchBlocked, 1, 2) }, func(*fakeThread) {}, true},
		{"the second", func(f *fakeThread) {
			f.leave(perfring.SwitchBlocked, 3)
			f.wake()
			f.leave(perfring.SwitchBlocked, 1, 2)
		}, func(*fakeThread) {}, true},
		{"it runs", func(*fakeThread) {}, func(*fakeThread) {}, false},
		{"it runs again", func(f *fakeThread) { f.leave(perfring.SwitchBlocked, 1, 2); f.wake() }, func(*fakeThread) {}, false},
		{"preempted", func(f *fakeThread) { f.leave(perfring.SwitchRunnable, 1, 2) }, func(*fakeThread) {}, false},
		{"no stack", func(f *fakeThread) { f.leave(perfring.SwitchBlocked) }, func(*fakeThread) {}, false},
		{"no sample", func(f *fakeThread) {
			f.records = append(f.records, perfring.Record{Type: perfring.TypeSwitch, Switch: perfring.SwitchBlocked})
		}, func(*fakeThread) {}, false},
		{"records missing", func(f *fakeThread) {
			f.leave(perfring.SwitchBlocked, 1, 2)
			f.err = perfring.ErrLost
		}, func(*fakeThread) {}, false},
		{"it wakes meanwhile", func(f *fakeThread) { f.leave(perfring.SwitchBlocked, 1, 2) }, (*fakeThread).wake, false},
		{"it waits again meanwhile", func(f *fakeThread) { f.leave(perfring.SwitchBlocked, 1, 2) }, func(f *fakeThread) {
			f.wake()
			f.leave(perfring.SwitchBlocked, 1, 2)
		}, false},
		{"records missing meanwhile", func(f *fakeThread) { f.leave(perfring.SwitchBlocked, 1, 2) }, func(f *fakeThread) {
			f.err = perfring.ErrLost
		}, false},
	} {
		var f fakeThread
		reads := 0
		w := witness{switches: &f, wchan: newFile("a", func() {
			if reads++; reads == 1 {
				tt.during(&f)
			}
		}), stack: newFile("[<0>] a+0x1/0x2\n", func() {})}
		tt.before(&f)
		w.look()
		require.Zero(t, reads, "%s: the first look only notices", tt.name)
		w.look()
		if !tt.kept {
			assert.Empty(t, w.waits, tt.name)
			continue
		}
		assert.Equal(t, []Wait{{Addresses: []uint64{1, 2}, Wchan: "a", Frames: []Frame{{"a", 1, 2}}}}, w.waits, tt.name)
		before := reads
		w.look()
		assert.Len(t, w.waits, 1, "%s: once", tt.name)
		assert.Equal(t, before, reads, tt.name)
	}
}

// TestFilesThatCannotBeReadSayNothing verifies it of files that could not be opened, that are refused, and that are too long.
func TestFilesThatCannotBeReadSayNothing(t *testing.T) {
	assert.Empty(t, readFile((*os.File)(nil)))
	directory, err := os.Open(t.TempDir())
	require.NoError(t, err)
	defer directory.Close()
	assert.Empty(t, readFile(directory))
	assert.Len(t, readFile(strings.NewReader(strings.Repeat("a", 2*maxText))), maxText)
}
