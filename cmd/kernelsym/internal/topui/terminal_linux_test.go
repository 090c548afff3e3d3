// SPDX-License-Identifier: Apache-2.0

package topui

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// childEnv has the test binary show a table on its terminal, and gives the error to cause.
const childEnv = "KERNELSYM_TEST_TOPUI"

func TestMain(m *testing.M) {
	if wrong, ok := os.LookupEnv(childEnv); ok {
		os.Exit(child(wrong))
	}
	goleak.VerifyTestMain(m)
}

func child(wrong string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	view := &fake{}
	view.bad = wrong == "view"
	err := Run(ctx, Terminal{os.Stdin, os.Stdout}, []topview.View{view},
		func(ctx context.Context, visit func(*live.Batch)) error {
			visit(&live.Batch{})
			if wrong == "sampling" {
				panic("sampling is broken")
			}
			visit(&live.Batch{})
			<-ctx.Done()
			return nil
		})
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error())
		return 1
	}
	return 0
}

func startChild(t *testing.T, wrong string, env ...string) *kerneltest.Terminal {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "NO_COLOR=", childEnv+"="+wrong)
	cmd.Env = append(cmd.Env, env...)
	return kerneltest.StartOnTerminal(t, cmd)
}

// ended verifies that the terminal is restored, and returns its output.
func ended(t *testing.T, term *kerneltest.Terminal, failed bool) string {
	t.Helper()
	output, restored, err := term.Ended()
	assert.Equal(t, failed, err != nil, "%v", err)
	assert.True(t, restored, "settings")
	assert.Equal(t, strings.LastIndex(output, "\x1b[?1049"), strings.LastIndex(output, "\x1b[?1049l"), "it has left the alternate screen")
	assert.Equal(t, strings.LastIndex(output, "\x1b[?25"), strings.LastIndex(output, "\x1b[?25h"), "the cursor is visible")
	return output
}

// shown waits for the table.
func shown(term *kerneltest.Terminal) {
	term.WaitFor("table", func(output string) bool { return strings.Contains(output, "apple") })
}

func TestQuit(t *testing.T) {
	for _, key := range []string{"q", "\x03"} {
		term := startChild(t, "")
		shown(term)
		term.Type(key)
		ended(t, term, false)
	}
}

// TestPanicRestoresTheTerminal verifies that the cause of a panic is on the terminal after it is
// restored.
func TestPanicRestoresTheTerminal(t *testing.T) {
	for wrong, want := range map[string]string{"view": "the view is broken", "sampling": "sampling is broken"} {
		t.Run(wrong, func(t *testing.T) {
			output := ended(t, startChild(t, wrong), true)
			after := output[strings.LastIndex(output, "\x1b[?1049")+1:] // -1 if nothing was shown yet
			assert.Contains(t, after, want)
			assert.Contains(t, after, "goroutine", "where it was")
		})
	}
}

var colour = regexp.MustCompile(`\x1b\[(?:[0-9;]*;)?[349][0-7][;m]`)

func TestColours(t *testing.T) {
	for _, tt := range []struct {
		env  string
		want bool
	}{{"NO_COLOR=", true}, {"NO_COLOR=1", false}} {
		term := startChild(t, "", tt.env)
		shown(term)
		term.Type("q")
		output := ended(t, term, false)
		require.Equal(t, tt.want, colour.MatchString(output), "%s: %q", tt.env, output)
	}
}
