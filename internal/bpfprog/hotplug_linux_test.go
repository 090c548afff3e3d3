// SPDX-License-Identifier: Apache-2.0

package bpfprog

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// TestCPUsComeAndGo takes a CPU offline and online again. What is loaded there before
// there are records of it, at once, is found all the same.
func TestCPUsComeAndGo(t *testing.T) {
	kerneltest.NeedVM(t)
	kerneltest.NeedBPF(t)
	last := loadLasting(t)
	s := NewSource(everything)
	latest := run(t, s)
	specs := churnSpecs(t)
	for range 2 {
		for _, online := range []bool{false, true} {
			kerneltest.SwitchCPU(t, 1, online)
			c := &churner{cpu: 0, specs: specs, loads: 50, lived: map[uint64]uint32{}}
			if online {
				c.cpu = 1
			}
			ended := make(chan struct{})
			go func() { defer close(ended); c.run() }()
			<-ended
			require.NoError(t, c.unquiet)
			agree(t, latest)
			last.check(t, latest().table)
			for _, p := range c.kept {
				require.NoError(t, p.Close())
			}
		}
	}
	agree(t, latest)
	require.Positive(t, latest().Resyncs, "what was missed was listed")
}
