// SPDX-License-Identifier: Apache-2.0

package dwarfpack_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/pack"
)

// largeModules are the modules that are compared with addr2line, if a kernel has them.
var largeModules = []string{"kvm", "xfs", "btrfs", "ext4", "nf_tables", "mlx5_core", "sctp", "cifs"}

func TestModulesAgainstAddr2line(t *testing.T) {
	for _, root := range debugRoots(t) {
		modules := 0
		for _, module := range largeModules {
			for _, name := range find(t, root, module+".ko") {
				modules++
				t.Run(filepath.Base(root)+"/"+module, func(t *testing.T) { judgeModule(t, name) })
			}
		}
		require.GreaterOrEqual(t, modules, 6, "modules in %s", root)
	}
}

// addr2lines are the names of addr2line, and the packages that contain it, by architecture.
var addr2lines = map[string][2]string{
	"amd64": {"x86_64-linux-gnu-addr2line", "binutils-x86-64-linux-gnu"},
	"arm64": {"aarch64-linux-gnu-addr2line", "binutils-aarch64-linux-gnu"},
}

// judgeModule compares the starts of rows in each section, and random offsets.
func judgeModule(t *testing.T, name string) {
	const each = 1000
	p := buildPack(t, name)
	d := differences{names: map[string]int{}, aliases: aliases(t, name)}
	for _, s := range p.Info().Sections {
		var addrs []uint32
		for r := range p.Rows() {
			if s.Range.Contains(r.Start) {
				addrs = append(addrs, r.Start)
			}
		}
		rnd := rand.New(rand.NewPCG(1, 2))
		rnd.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
		addrs = addrs[:min(len(addrs), each)]
		for range min(each, s.Range.End-s.Range.Start) {
			addrs = append(addrs, s.Range.Start+rnd.Uint32N(s.Range.End-s.Range.Start))
		}
		judgeSection(t, name, p, s, addrs, &d)
	}
	d.report(t, "addr2line")
}

// judgeSection compares addresses in a section.
func judgeSection(t *testing.T, name string, p *pack.Pack, s pack.Section, addrs []uint32, d *differences) {
	judge := addr2lines[p.Info().Arch]
	cmd := exec.CommandContext(t.Context(), tool(t, judge[0], judge[1]), "-a", "-i", "-f", "-j", s.Name, "-e", name)
	answers := ask(t, cmd, len(addrs), func(i int) string { return fmt.Sprintf("%#x", addrs[i]-s.Range.Start) })
	require.True(t, answers.Scan(), "no answer of addr2line")
	for i, addr := range addrs {
		offset, err := strconv.ParseUint(strings.TrimPrefix(answers.Text(), "0x"), 16, 64)
		require.NoError(t, err)
		require.EqualValues(t, addr-s.Range.Start, offset)
		frames, more := addr2lineFrames(answers)
		require.Equal(t, i+1 < len(addrs), more)
		d.compare(fmt.Sprintf("%s+%#x", s.Name, offset), p.Find(addr, nil), frames, false)
	}
}

// addr2lineFrames reads frames up to the next address, and reports whether there is one.
func addr2lineFrames(answers *bufio.Scanner) (frames []frame, more bool) {
	for answers.Scan() {
		function := answers.Text()
		if strings.HasPrefix(function, "0x") {
			return frames, true
		}
		answers.Scan()
		place, _, _ := strings.Cut(answers.Text(), " (discriminator")
		colon := strings.LastIndexByte(place, ':')
		line, _ := strconv.ParseUint(place[colon+1:], 10, 32) // "?" if unknown
		frames = append(frames, frame{function: function, file: place[:max(0, colon)], line: uint32(line)})
	}
	return frames, false
}
