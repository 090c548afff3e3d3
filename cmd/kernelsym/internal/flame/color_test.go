// SPDX-License-Identifier: Apache-2.0

package flame

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRGB(t *testing.T) {
	for want, hsl := range map[string][3]float64{
		"#ff0000": {0, 1, 0.5}, "#00ff00": {120, 1, 0.5}, "#0000ff": {240, 1, 0.5}, "#808080": {77, 0, 0.502}, "#ffffff": {33, 0.9, 1},
	} {
		assert.Equal(t, want, rgb(hsl[0], hsl[1], hsl[2]))
	}
}

// TestColors: a function has one color, functions of a part of the kernel have one hue, and parts that are known differ.
func TestColors(t *testing.T) {
	assert.Equal(t, "#f66ba4", colorOf("vfs_read", "fs"), "it is the same in each picture")
	assert.NotEqual(t, colorOf("vfs_read", "fs"), colorOf("vfs_read", "mm"))
	assert.NotEqual(t, colorOf("vfs_read", "fs"), colorOf("vfs_write", "fs"))
	for file, want := range map[string]string{
		"fs/read_write.c": "fs", "./mm/filemap.c": "mm", "include/linux/fs.h": "", "arch/x86/entry/common.c": "", "": "", "fs": "fs",
	} {
		assert.Equal(t, want, subsystem(file), file)
	}
}

// TestLegendOfSubsystems: with source files, the legend names the parts of the kernel that occur.
func TestLegendOfSubsystems(t *testing.T) {
	g := new(Graph)
	g.Add([]Frame{{Name: "a", Owner: "vmlinux", Kind: Core}, {Name: "b", Owner: "vmlinux", File: "fs/read_write.c", Kind: Core}}, 3)
	g.Add([]Frame{{Name: "c", Owner: "ext4", File: "fs/ext4/file.c", Kind: Module}}, 3)
	var svg strings.Builder
	require.NoError(t, g.SVG(&svg, page))
	for _, text := range []string{">core kernel<", ">fs/<", ">kernel module<", colorOf("b", "fs"), "vmlinux fs/read_write.c"} {
		assert.Contains(t, svg.String(), text)
	}
	assert.NotContains(t, svg.String(), ">mm/<")
}
