// SPDX-License-Identifier: Apache-2.0

package flame

import (
	"fmt"
	"hash/fnv"
	"math"
	"strings"
)

// hues are the hues of the parts of the core kernel, in degrees, by the directory of the source. They keep away from the
// blue, green and yellow of other kinds of code. Code of other directories, and code whose file is not known, has baseHue.
var hues = []struct {
	directory string
	hue       float64
}{
	{"kernel", 24}, {"mm", 0}, {"fs", 335}, {"block", 312}, {"net", 288}, {"drivers", 264}, {"security", 350}, {"crypto", 276},
}

const baseHue = 33

// subsystem returns the directory of a source file of the kernel that has a hue of its own, or an empty string.
func subsystem(file string) string {
	directory, _, _ := strings.Cut(strings.TrimPrefix(file, "./"), "/")
	for _, h := range hues {
		if h.directory == directory {
			return directory
		}
	}
	return ""
}

func hueOf(directory string) float64 {
	for _, h := range hues {
		if h.directory == directory {
			return h.hue
		}
	}
	return baseHue
}

// colorOf returns the color of a function of the core kernel. Functions of a hue differ in lightness, by their names, so
// that neighbors can be told apart and a function has the same color everywhere.
func colorOf(name, directory string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // it never fails
	return rgb(hueOf(directory), 0.88, 0.62+0.16*float64(h.Sum32()%101)/100)
}

// rgb returns a color in hexadecimal digits (HSL to RGB, as CSS Color 4 defines it).
func rgb(hue, saturation, lightness float64) string {
	part := func(n float64) int {
		k := math.Mod(n+hue/30, 12)
		a := saturation * min(lightness, 1-lightness)
		return int(math.Round(255 * (lightness - a*max(-1, min(k-3, 9-k, 1)))))
	}
	return fmt.Sprintf("#%02x%02x%02x", part(0), part(8), part(4))
}
