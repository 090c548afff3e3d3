// SPDX-License-Identifier: Apache-2.0

package doctest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// answers has the headings below which the questions of docs/dev/questions.md are answered, in order.
var answers = []string{
	// who chooses
	"docs/figures.md#tested-versions", "docs/figures.md#large-nodes", "README.md#what-it-does",
	"docs/producers.md#otel-ebpf-profiler", "docs/dev/comparison.md#how-other-tools-name-kernel-code",
	"docs/faq.md#what-does-it-send-and-where",
	// operates
	"docs/privileges.md#with-kernelkptr_restrict-0-or-1-and-kernelperf_event_paranoid-2",
	"deploy/README.md#operator-and-kube-stack", "deploy/README.md#did-it-work", "deploy/README.md#kubernetes",
	"docs/collector.md#containers", "docs/platforms/lockdown.md#kernel-lockdown",
	// sits at a terminal
	"docs/tool.md#top", "docs/tool.md#what-threads-wait-for", "docs/tool.md#annotate", "docs/tool.md#bpf-programs",
	"docs/tool.md#inlined", "docs/faq.md#why-does-this-frame-have-no-name",
	// reads profiles
	"docs/backends.md#backends", "docs/backends.md#elastic-universal-profiling", "docs/backends.md#the-settings-of-kernelsym",
	"docs/collector.md#sampling-the-kernel", "docs/collector.md#off-cpu-time", "docs/backends.md#the-settings-of-kernelsym",
	// reviews or contributes
	"SECURITY.md#what-a-sender-of-profiles-can-and-cannot-do", "deploy/README.md#what-it-may-do-and-why",
	"SECURITY.md#reporting-a-vulnerability", "RELEASING.md#verifying-a-release", "CONTRIBUTING.md#tests",
	"docs/contract.md#what-kernelsym-does-to-a-profile",
}

// TestQuestions verifies that each question has an answer within two clicks from the front page. Whether the answer is
// good is for readers to judge.
func TestQuestions(t *testing.T) {
	needRepository(t)
	list, err := os.ReadFile(root + "docs/dev/questions.md")
	require.NoError(t, err)
	assert.Len(t, answers, len(regexp.MustCompile(`(?m)^\d+\. `).FindAll(list, -1)))
	clicks := map[string]int{"README.md": 0}
	for next := []string{"README.md"}; len(next) > 0; next = next[1:] {
		page := next[0]
		text, err := os.ReadFile(root + page)
		require.NoError(t, err)
		for _, link := range linksOf(string(text)) {
			file, _, _ := strings.Cut(link, "#")
			to := filepath.Join(filepath.Dir(page), file)
			if _, seen := clicks[to]; !seen && file != "" && filepath.Ext(to) == ".md" {
				clicks[to] = clicks[page] + 1
				next = append(next, to)
			}
		}
	}
	for i, answer := range answers {
		page, heading, _ := strings.Cut(answer, "#")
		distance, linked := clicks[page]
		assert.True(t, linked && distance <= 2, "question %d: %s is %d clicks away", i+1, page, distance)
		text, err := os.ReadFile(root + page)
		require.NoError(t, err)
		assert.True(t, anchorsOf(string(text))[heading], "question %d: %s", i+1, answer)
	}
}
