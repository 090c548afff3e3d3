// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// program has a function for each kind of condition, and prints their results.
const program = `package main

import "fmt"

func main() {
	fmt.Print(operands(true, false), value(2), smallest(1, 2), loop(3), nested([]int{1, 2}), total)
	add(1)
	fmt.Println(total)
}

func operands(a, b bool) int {
	if a && !(b || a == b) {
		return 1
	}
	return 0
}

func value(n int) string {
	switch m := n; m {
	case 1, 2:
		return "small"
	}
	return "large"
}

func smallest(a, b int) int { return min(a, b) }

func loop(n int) (sum int) {
	for i := 0; i < n; i++ {
		sum++
	}
	return sum
}

func nested(list []int) bool {
	is := func(n int) bool { return n == 1 }
	return is(list[0])
}

var total int

func add(n int) { total += n }
`

// TestInstrument runs a program with each of its mutants.
func TestInstrument(t *testing.T) {
	isWanted := func(function string) bool { return function != "main" }
	source, mutants, err := instrument("program.go", []byte(program), isWanted, 1)
	require.NoError(t, err)
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"program.go": source, "mutant.go": chooser("main"), "go.mod": []byte("module program\n\ngo 1.26\n"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", "program", ".")
	build.Dir = dir
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, source)

	const right = "1small1 3 true 01"
	var got []string
	for number := range len(mutants) + 1 {
		run := exec.CommandContext(t.Context(), filepath.Join(dir, "program"))
		run.Env = append(os.Environ(), fmt.Sprintf("%s=%d", environment, number))
		out, err := run.Output()
		require.NoError(t, err)
		if printed := strings.TrimSpace(string(out)); number == 0 {
			assert.Equal(t, right, printed)
		} else {
			assert.Equal(t, number, mutants[number-1].Number)
			got = append(got, mutants[number-1].String()+" prints "+printed)
		}
	}
	assert.Equal(t, []string{
		"program.go operands: a prints 0small1 3 true 01",
		"program.go operands: b prints 0small1 3 true 01",
		"program.go operands: a == b prints 0small1 3 true 01",
		"program.go value: m == 1 prints 1small1 3 true 01",
		"program.go value: m == 2 prints 1large1 3 true 01",
		"program.go smallest: min(a, b) prints 1small2 3 true 01",
		"program.go loop: i < n prints 1small1 0 true 01",
		"program.go nested: n == 1 prints 1small1 3 false 01",
		"program.go nested: is(list[0]) prints 1small1 3 false 01",
		"program.go add: does nothing prints 1small1 3 true 00",
	}, got)
}
