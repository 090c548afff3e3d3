// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// A namedProgram is a BPF program and the name that its code must get.
type namedProgram struct {
	prog   *ebpf.Program
	code   kerneltest.Code
	symbol string
}

// loadNamed loads program n of all. The programs have ten tags, and each name and tag occurs twice.
func loadNamed(t *testing.T, n, all int) namedProgram {
	t.Helper()
	name := fmt.Sprintf("kernelsym_%d", n%(all/2))
	prog, err := kerneltest.NewBPF(kerneltest.SmallProgram(name, int32(n%10), 8))
	require.NoError(t, err)
	info, err := prog.Info()
	require.NoError(t, err)
	return namedProgram{prog, kerneltest.CodeOf(t, prog)[0], "bpf_prog_" + info.Tag + "_" + name}
}

// samplesOf adds a sample for each way in which a program's code can occur: at its first byte, in
// its middle, and as the caller whose call was its last instruction.
func (p namedProgram) samplesOf(m *rewritetest.Message) {
	user := frame{Address: 0x1000, Type: "native"}
	for _, stack := range [][]frame{
		{{Address: p.code.Start, Type: "kernel"}},
		{{Address: p.code.Start + 8, Type: "kernel"}},
		{user, {Address: p.code.Start + 8, Type: "kernel"}},
		{user, {Address: p.code.End, Type: "kernel"}},
	} {
		m.Sample(stack...)
		m.LastSample().TimestampsUnixNano().Append(uint64(time.Now().UnixNano()))
	}
}

// TestContract_4_1_OneNameForAFileIDAndAnAddress loads programs with few tags, twice, so that they
// take each other's addresses. It verifies that in the whole run, a file ID and an address have one
// name, and that the name is right.
func TestContract_4_1_OneNameForAFileIDAndAnAddress(t *testing.T) {
	kerneltest.Built(t, kerneltest.Collector)
	kerneltest.NeedBPF(t)
	k := readKernel(t)
	endpoint, dir := freeAddress(t), t.TempDir()
	c := startCollector(t, fmt.Sprintf(twoPipelines, endpoint, dir))
	files := []string{filepath.Join(dir, "relative.json"), filepath.Join(dir, "keep.json")}
	sent := waitForSymbols(c, k, overGRPC(endpoint), files[0])

	all := kerneltest.Sized(1000, 100)
	was := make(map[uint64]string)
	again := 0
	for round := 0; round < 2 || round < 10 && again == 0; round++ {
		programs := make([]namedProgram, all)
		for i := range all {
			n := i
			if round%2 == 1 {
				n = all - 1 - i
			}
			p := loadNamed(t, n, all)
			if had, ok := was[p.code.Start]; ok && had != p.symbol {
				again++
			}
			was[p.code.Start] = p.symbol
			programs[i] = p
		}
		named := make(map[string]bool)
		c.eventually("all programs have had their names", func() error { // a program that was just loaded is not certain
			sent = sendNamed(c, endpoint, files, programs, sent)
			return checkNamed(c, files, programs, named)
		})
		for _, p := range programs {
			require.NoError(t, p.prog.Close())
		}
	}
	t.Logf("%d programs at a time, at %d addresses, and %d times at the address of another one", all, len(was), again)
	if !kerneltest.OlderThan(t, 5, 18) { // before 5.18, programs have pages of their own
		assert.Positive(t, again)
	}
}

const programsPerMessage = 250

// sendNamed sends samples of all programs and waits until they have come out. It returns the
// number of messages sent.
func sendNamed(c *collector, endpoint string, files []string, programs []namedProgram, sent int) int {
	c.t.Helper()
	for first := 0; first < len(programs); first += programsPerMessage {
		m := rewritetest.NewMessage().Profile(nil, "")
		for _, p := range programs[first:min(first+programsPerMessage, len(programs))] {
			p.samplesOf(m)
		}
		require.NoError(c.t, overGRPC(endpoint)(c.t, m.Profiles))
		sent++
	}
	for _, file := range files {
		nthMessage(c, file, sent-1)
	}
	return sent
}

// checkNamed compares the names in the last messages, and records which samples had one. It returns
// an error if some have not had a name so far.
func checkNamed(c *collector, files []string, programs []namedProgram, named map[string]bool) error {
	c.t.Helper()
	messages := (len(programs) + programsPerMessage - 1) / programsPerMessage
	all := 0
	for _, file := range files {
		out := c.exported(file) // checks all messages together
		var samples []rewritetest.Sample
		for _, pd := range out[len(out)-messages:] {
			samples = append(samples, rewritetest.Samples(pd)...)
		}
		require.Len(c.t, samples, 4*len(programs))
		all += len(samples)
		for i, s := range samples {
			f := s.Stack[len(s.Stack)-1]
			if len(f.Lines) > 0 {
				require.Equal(c.t, programs[i/4].symbol, f.Lines[0].System, "%+v", f)
				named[fmt.Sprint(file, i)] = true
			}
		}
	}
	if len(named) < all {
		return fmt.Errorf("%d of %d", len(named), all)
	}
	return nil
}
