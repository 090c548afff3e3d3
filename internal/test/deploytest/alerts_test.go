// SPDX-License-Identifier: Apache-2.0

package deploytest

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/template"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// alertRules returns the alert rules by name.
func alertRules(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(repository+"/deploy/prometheus/alerts.yaml", false, model.UTF8Validation)
	require.Empty(t, errs)
	rules := make(map[string]rulefmt.Rule)
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			require.NotContains(t, rules, rule.Alert)
			rules[rule.Alert] = rule
		}
	}
	return rules
}

// summary returns the summary of an alert as Prometheus would render it.
func summary(t *testing.T, rule *rulefmt.Rule, of promql.Sample) string {
	t.Helper()
	const names = "{{$labels := .Labels}}{{$value := .Value}}"
	text, err := template.NewTemplateExpander(t.Context(), names+rule.Annotations["summary"], rule.Alert,
		template.AlertTemplateData(of.Metric.Map(), nil, "", of), 0, nil, new(url.URL), nil).Expand()
	require.NoError(t, err, rule.Alert)
	return text
}

// firing returns which alerts fire, for which processor and on which node. It fails the test if a
// summary does not name both.
func firing(t *testing.T, exposed memory) (fire []string) {
	t.Helper()
	for name, rule := range alertRules(t) {
		for _, s := range answer(t, rule.Expr, exposed) {
			where := s.Metric.Get("node")
			if where == "" {
				where = s.Metric.Get("instance")
			}
			text := summary(t, &rule, s)
			assert.Contains(t, text, s.Metric.Get("processor"), name)
			assert.Contains(t, text, where, name)
			fire = append(fire, strings.Join(strings.Fields(name+" "+s.Metric.Get("processor")+" "+where), " "))
		}
	}
	return fire
}

// An alertCase is what collectors expose, and which alerts fire.
type alertCase struct {
	exposed memory
	want    []string
}

// troubles returns the cases of all kinds. Nodes a and b each have a collector with two processors.
// If something is wrong, it is wrong for only one of them.
func troubles() map[string]alertCase {
	all := troublesOfSources()
	maps.Copy(all, troublesOfFrames())
	maps.Copy(all, troublesOfCollectors())
	maps.Copy(all, troublesOfWaits())
	return all
}

func troublesOfSources() map[string]alertCase {
	const lost = "lost_records"
	return map[string]alertCase{
		"all is well": {both(node("a"), node("b")), nil},
		"no symbols": {
			both(node("a"), with(node("b"), always(symbols("b", other), 0),
				always(source("b", other, "kallsyms"), 0), always(source("b", other, "modules"), 0))),
			[]string{"KernelsymNoKernelSymbols kernelsym/other node-b"},
		},
		"no symbols for one, and a source of the other is down": {
			with(node("a"), always(symbols("a", other), 0), always(source("a", other, "kallsyms"), 0), always(source("a", main, "bpf"), 0)),
			[]string{"KernelsymNoKernelSymbols kernelsym/other node-a", "KernelsymSourceDown kernelsym node-a"},
		},
		"no sysfs": {
			with(node("a"), always(source("a", other, "kallsyms"), 0)), []string{"KernelsymSourceDown kernelsym/other node-a"},
		},
		"no SYS_ADMIN": {
			both(node("a"), with(node("b"), always(source("b", main, "bpf"), 0))), []string{"KernelsymSourceDown kernelsym node-b"},
		},
		"a gateway": {
			both(node("a"), []series{always(symbols("b", main), 0), always(source("b", main, "packs"), 1)}), nil,
		},
		"a gateway with damaged packs": {
			both(node("a"), []series{always(symbols("b", main), 0), always(source("b", main, "packs"), 0)}),
			[]string{"KernelsymSourceDown kernelsym node-b"},
		},
		"records lost": {
			node("a", counter(exposed("a", other, lost, "source", "bpf"), 1)), []string{"KernelsymRecordsLost kernelsym/other node-a"},
		},
		"not where it was located": {
			node("a", always(exposed("a", other, "mislocated", "source", "kallsyms"), 1)), []string{"KernelsymMislocated kernelsym/other node-a"},
		},
		"records were lost once": {node("a", always(exposed("a", other, lost, "source", "bpf"), 7)), nil},
	}
}

func troublesOfFrames() map[string]alertCase {
	const off, named = "profiles_clock_off", "named"
	return map[string]alertCase{
		"unresolved": {
			node("a", counter(frames("a", other, "unresolved"), 3000)), []string{"KernelsymFramesUnresolved kernelsym/other node-a"},
		},
		"ambiguous": {
			node("a", counter(frames("a", other, "ambiguous"), 3000)), []string{"KernelsymFramesUnresolved kernelsym/other node-a"},
		},
		"unobserved": {
			node("a", counter(frames("a", main, "unobserved"), 3000)), []string{"KernelsymFramesUnresolved kernelsym node-a"},
		},
		"unresolved, and many came with a name": {
			node("a", counter(frames("a", other, "unresolved"), 3000), counter(frames("a", other, named), 1e6)),
			[]string{"KernelsymFramesUnresolved kernelsym/other node-a"},
		},
		"few are unresolved":  {node("a", counter(frames("a", other, "unresolved"), 300)), nil},
		"all come with names": {node("a", counter(frames("a", other, named), 1e6)), nil},
		"very few frames": {
			with(node("a", counter(frames("a", other, "unresolved"), 30), counter(frames("a", other, "foreign"), 30)),
				counter(frames("a", other, "resolved"), 0)), nil,
		},
		"frames of other hosts": {
			node("a", counter(frames("a", other, "foreign"), 9000), counter(frames("a", other, named), 1e6)),
			[]string{"KernelsymFramesForeign kernelsym/other node-a"},
		},
		"without packs": {
			node("a", counter(frames("a", other, "no_pack"), 3000)), []string{"KernelsymNoPacks kernelsym/other node-a"},
		},
		"some are without packs":  {node("a", counter(frames("a", other, "no_pack"), 300)), nil},
		"some are of other hosts": {node("a", counter(frames("a", other, "foreign"), 3000)), nil},
		"a clock off":             {node("a", counter(exposed("a", other, off), 1)), []string{"KernelsymClockOff kernelsym/other node-a"}},
		"a clock was off":         {node("a", always(exposed("a", other, off), 7)), nil},
	}
}

func troublesOfWaits() map[string]alertCase {
	waits := func(lost, blind, short, sent float64) []series {
		of := func(metric, more string) string {
			return fmt.Sprintf(`otelcol_receiver_kernelstack_%s{instance="a", node="node-a"%s}`, metric, more)
		}
		return node("a", counter(of("lost_waits", `, cause="records"`), lost), counter(of("lost_waits", `, cause="blind"`), blind),
			counter(of("short_waits", ""), short), counter(of("waits", ""), sent))
	}
	return map[string]alertCase{
		"waits are lost":             {waits(600, 0, 0, 9000), []string{"KernelsymWaitsLost node-a"}},
		"for two causes":             {waits(300, 300, 0, 9000), []string{"KernelsymWaitsLost node-a"}},
		"few of all waits":           {waits(600, 0, 9000, 9000), nil},
		"no waits, as without them":  {waits(0, 0, 0, 0), nil},
		"all waits are lost, if any": {waits(1, 0, 0, 0), []string{"KernelsymWaitsLost node-a"}},
	}
}

func troublesOfCollectors() map[string]alertCase {
	return map[string]alertCase{
		"nothing is scraped":      {nil, []string{"KernelsymAbsent"}},
		"it does not answer":      {both(node("a"), silent("b", now-20)), []string{"KernelsymGone node-b"}},
		"it was gone before":      {both(node("a"), silent("b", 20)), nil},
		"a processor was removed": {both(node("a"), except(other, node("b")), only(other, between(0, now-20, "b"))), nil},
		"it does not answer, and a processor was added elsewhere": {
			both(except(other, node("a")), only(other, between(now-20, now, "a")), except(other, silent("b", now-20))),
			[]string{"KernelsymGone node-b"},
		},
		"profiles have stopped":    {both(node("a"), with(node("b"), always(accepted("b"), 600))), []string{"KernelsymNoProfiles node-b"}},
		"no profiles ever arrived": {without(node("a"), accepted("a")), []string{"KernelsymNoProfiles node-a"}},
		"no backend":               {without(node("a"), sent("a")), []string{"KernelsymNothingDelivered node-a"}},
		"the backend is gone":      {with(node("a"), always(sent("a"), 600)), []string{"KernelsymNothingDelivered node-a"}},
		"one of two exporters sends": {
			node("a", always(queueOf("a", "otlp_grpc/second"), 7)), []string{"KernelsymNothingDelivered node-a"},
		},
		"the disk is full": {
			without(node("a", counter(failedBy("a", "file"), 600)), sent("a"), queueOf("a", "otlp_grpc")),
			[]string{"KernelsymNothingDelivered node-a"},
		},
		"the queue is full, and nothing is accepted": {
			append(with(node("a"), always(accepted("a"), 600), always(sent("a"), 600)),
				counter(strings.Replace(accepted("a"), "accepted", "refused", 1), 600)),
			[]string{"KernelsymNothingDelivered node-a"},
		},
		"some find the queue full": {
			node("a", counter(strings.Replace(failedBy("a", "otlp_grpc"), "send", "enqueue", 1), 1)), []string{"KernelsymNothingDelivered node-a"},
		},
		"some requests fail":         {node("a", counter(failedBy("a", "otlp_grpc"), 1)), []string{"KernelsymNothingDelivered node-a"}},
		"requests failed once":       {node("a", always(failedBy("a", "otlp_grpc"), 7)), nil},
		"large messages are refused": {node("a", counter(refused("a", "too_large"), 1)), []string{"KernelsymMessagesRefused node-a"}},
		"for two reasons": {
			both(node("a"), node("b", counter(refused("b", "busy"), 0.2), counter(refused("b", "malformed"), 1))),
			[]string{"KernelsymMessagesRefused node-b", "KernelsymMessagesRefused node-b"},
		},
		"messages were refused once": {node("a", always(refused("a", "busy"), 7)), nil},
		"nothing to deliver":         {with(node("a"), always(accepted("a"), 600), always(sent("a"), 600)), []string{"KernelsymNoProfiles node-a"}},
		"a collector for other data": {both(node("a"), []series{counter(accepted("b"), 600), counter(failedBy("b", "otlp_grpc"), 1)}), nil},
	}
}

// both joins the series of nodes.
func both(list ...[]series) memory { return slices.Concat(list...) }

func (s series) isOf(processor string) bool {
	return strings.Contains(s.name, `processor="`+processor+`"`)
}

// only returns the series that a processor exposes.
func only(processor string, all []series) []series {
	return slices.DeleteFunc(all, func(s series) bool { return !s.isOf(processor) })
}

// except returns all other series.
func except(processor string, all []series) []series {
	return slices.DeleteFunc(all, func(s series) bool { return s.isOf(processor) })
}

// TestAlertsFire verifies which alerts fire when, for which processor and on which node. Each alert
// fires in at least one case; the other cases verify that it does not.
func TestAlertsFire(t *testing.T) {
	fired := make(map[string]bool)
	for name, tt := range troubles() {
		t.Run(name, func(t *testing.T) {
			fire := firing(t, tt.exposed)
			assert.ElementsMatch(t, tt.want, fire)
			for _, f := range fire {
				alert, _, _ := strings.Cut(f, " ")
				fired[alert] = true
			}
		})
	}
	for alert := range alertRules(t) {
		assert.True(t, fired[alert], "%s never fires", alert)
	}
}

var nodeLabel = regexp.MustCompile(`, node="[^"]*"`)

// TestAlertsWithoutNodes verifies that alerts name the instance if metrics do not name the node.
func TestAlertsWithoutNodes(t *testing.T) {
	for name, tt := range troubles() {
		t.Run(name, func(t *testing.T) {
			for i := range tt.exposed {
				tt.exposed[i].name = nodeLabel.ReplaceAllString(tt.exposed[i].name, "")
			}
			for i := range tt.want {
				tt.want[i] = strings.ReplaceAll(tt.want[i], " node-", " ")
			}
			assert.ElementsMatch(t, tt.want, firing(t, tt.exposed))
		})
	}
}

// TestRunbooks verifies that each alert links to its section of docs/troubleshooting.md, and that
// the chapter about alerts has no other sections.
func TestRunbooks(t *testing.T) {
	const page = "docs/troubleshooting.md"
	text, err := os.ReadFile(repository + "/" + page)
	require.NoError(t, err)
	_, chapter, found := strings.Cut(string(text), "\n## Alerts\n")
	require.True(t, found)
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	sections := make(map[string]bool)
	for _, heading := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(chapter, -1) {
		sections[heading[1]] = true
	}
	for name, rule := range alertRules(t) {
		// GitHub's anchor for a heading of one word is that word in lower case.
		want := "https://github.com/kernelsym/kernelsym/blob/main/" + page + "#" + strings.ToLower(name)
		assert.Equal(t, want, rule.Annotations["runbook_url"], name)
		assert.True(t, sections[name], "%s has no section", name)
		delete(sections, name)
	}
	assert.Empty(t, sections, "no such alert")
}
