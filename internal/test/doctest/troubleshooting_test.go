// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTroubleshootingHasEveryMessage verifies that docs/troubleshooting.md has each message of the
// sources and of the code that logs about them: all errors without arguments, the long parts of
// other errors, and all log messages.
func TestTroubleshootingHasEveryMessage(t *testing.T) {
	needRepository(t)
	content, err := os.ReadFile(root + "docs/troubleshooting.md")
	require.NoError(t, err)
	page := strings.Join(strings.Fields(string(content)), " ")
	messages := make(map[string]string) // the file that each comes from
	for _, dir := range []string{
		"kernelsymprocessor", "kernelstackreceiver", "internal/sources", "internal/symcache", "internal/kallsyms", "internal/kmod",
		"internal/bpfprog", "internal/bpf", "internal/perfring", "internal/uevent", "internal/buildid", "internal/symtab",
		"internal/packs", "internal/packimage", "internal/locate", "internal/admission",
	} {
		before := len(messages)
		files, err := filepath.Glob(root + dir + "/*.go")
		require.NoError(t, err)
		for _, file := range files {
			if name := filepath.Base(file); !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "generated_") {
				messagesOf(t, file, messages)
			}
		}
		if dir != "kernelsymprocessor" { // it has no messages of its own
			assert.Greater(t, len(messages), before, dir)
		}
	}
	for _, message := range slices.Sorted(maps.Keys(messages)) {
		if !strings.Contains(page, message) {
			t.Errorf("docs/troubleshooting.md does not say what to do about this of %s: %s", messages[message], message)
		}
	}
}

// verb matches the place of an argument in a message.
var verb = regexp.MustCompile(`%[#+.0-9]*[a-zA-Z]`)

// messagesOf adds the messages in a file.
func messagesOf(t *testing.T, file string, messages map[string]string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt: // it can assign a part of a message
			for _, value := range n.Rhs {
				if text, ok := literal(value); ok && strings.Count(text, " ") > 2 && !strings.Contains(text, "%") {
					messages[strings.Trim(text, ", ")] = file
				}
			}
		case *ast.CallExpr:
			messagesOfCall(n, file, messages)
		}
		return true
	})
}

func messagesOfCall(call *ast.CallExpr, file string, messages map[string]string) {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return
	}
	text, ok := literal(call.Args[0])
	if !ok {
		return
	}
	const sentence = 24 // shorter parts say where, not what
	switch function.Sel.Name {
	case "New", "Info", "Warn", "Error":
		messages[text] = file
	case "Errorf":
		for _, part := range verb.Split(text, -1) {
			if part = strings.Trim(part, ": ?"); len(part) >= sentence {
				messages[part] = file
			}
		}
	}
}

// literal returns the value of a string literal, or of several that are joined.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		x, ok := literal(e.X)
		y, also := literal(e.Y)
		return x + y, ok && also
	}
	return "", false
}
