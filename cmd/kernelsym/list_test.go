// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/running"
	"github.com/kernelsym/kernelsym/internal/symtab"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/timeline/timelinetest"
)

func TestList(t *testing.T) {
	tree := append([]string{"list", "--kind", "kernel,module"}, twinTree(t)...)
	run := func(args ...string) string {
		out, _, err := execute(t, "", append(tree, args...)...)
		require.NoError(t, err)
		return out
	}
	const (
		header = "ADDRESS           BYTES  KIND    AGE  PROGRAM  SOURCE    NAME\n"
		core   = "ffffffff81000000  256    kernel  -    -        kallsyms  vmlinux\n"
	)
	assert.Equal(t, header+core+"ffffffffc0200000  4096   module  -    -        modules   nf_tables\n", run())
	assert.Equal(t, header+core, run("vm*"))
	some, _, err := execute(t, "", append(tree, "vmlinux", "nowhere")...)
	require.ErrorIs(t, err, errNotLoaded)
	require.ErrorContains(t, err, "nowhere")
	assert.Equal(t, header+core, some)
	assertJSONLines(t, `{"kind":"module","address":"0xffffffffc0200000","bytes":4096,"name":"nf_tables","source":"modules","symbols":4}`+"\n",
		run("nf_?ables", "-o", "json"))
	assert.Contains(t, wrong(t, "list", "--kind", "xdp"), "--kind is \"xdp\": there is no such kind; it takes kernel, module, bpf, trampoline, ool")
	assert.Contains(t, wrong(t, "list", "["), "syntax error in pattern")
}

// TestListOfWhatIsNotCertain lists a trampoline that is announced with too great a length, code
// without a name, and a core kernel with data before its init text.
func TestListOfWhatIsNotCertain(t *testing.T) {
	core := timelinetest.NewImage(t, timelinetest.Text{
		Start: 0xffffffff81000000, End: 0xffffffff81002000,
		Gap:       symtab.Range{Start: 0xffffffff81000800, End: 0xffffffff81001800},
		Landmarks: &symtab.Landmarks{SharedTrampolines: true},
	})
	h := timeline.NewBuilder(recent)
	h.Load(timeline.NewFunction(timeline.OriginTrampoline, "bpf_trampoline_1", 0xffffffffc0200000, 4096, 0))
	h.Load(timeline.NewFunction(timeline.OriginBPF, "", 0xffffffffc0300000, 64, 0).WithProgram(&timeline.Program{ID: 1 << 31, Type: "xdp"}, nil))
	var k running.Kernel
	k.Follow(func() *timeline.Snapshot { return timeline.NewSnapshot(timeline.NewTable(core), h.Table()) }, 0)
	found, err := list(t.Context(), &k, &listFilter{anyName: true})
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, writeList(printable.New(&out, false), found))
	assert.Equal(t, ""+
		"ADDRESS           BYTES  KIND        AGE  PROGRAM     SOURCE    NAME\n"+
		"ffffffff81000000  4096   kernel      -    -           kallsyms  vmlinux\n"+
		"ffffffffc0200000  -      trampoline  -    -           kallsyms  bpf_trampoline_1\n"+
		"ffffffffc0300000  64     bpf         -    2147483648  bpf       [no name]\n", out.String())
}

func TestSeconds(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s": 0, "119s": 119 * time.Second, "2m": 2 * time.Minute, "119m": 119*time.Minute + 59*time.Second, "2h": 2 * time.Hour, "47h": 47 * time.Hour, "3d": 75 * time.Hour,
	} {
		assert.Equal(t, want, seconds(d).String())
	}
	text, err := seconds(1500 * time.Millisecond).MarshalJSON()
	require.NoError(t, err)
	assert.Equal(t, "1.500", string(text))
}
