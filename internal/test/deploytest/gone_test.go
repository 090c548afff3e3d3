// SPDX-License-Identifier: Apache-2.0

package deploytest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The minutes of the test of KernelsymGone. Everything has happened by now; end is more than an hour later.
const (
	rollOut = 90
	end     = 240
)

// podOn returns the series of the pod that a node has from one minute to another.
func podOn(node string, number, first, last int) []series {
	all := between(first, last, node)
	for i := range all {
		all[i].name = strings.Replace(all[i].name, fmt.Sprintf("instance=%q", node), fmt.Sprintf("instance=%q", addressOf(node, number)), 1)
	}
	return all
}

func addressOf(node string, number int) string { return fmt.Sprintf("%s-pod%d", node, number) }

// rolledOut returns the series of the pods of a node that got a new one in the roll-out. The new pod takes over before the
// old one ends.
func rolledOut(node string, last int) []series {
	return append(podOn(node, 1, 0, rollOut), podOn(node, 2, rollOut-1, last)...)
}

// inCluster returns the series by which kube-state-metrics reports that a node exists.
func inCluster(node string, last int) series {
	return series{fmt.Sprintf(`kube_node_info{job="kube-state-metrics", instance="ksm", node=%q}`, "node-"+node), 0, last, 1, 0}
}

// TestCollectorsGo verifies which alerts fire, at some minute, as collectors and nodes come and go.
func TestCollectorsGo(t *testing.T) {
	abc := both([]series{inCluster("a", end), inCluster("b", end), inCluster("c", end)})
	withoutC := both([]series{inCluster("a", end), inCluster("b", end), inCluster("c", now)})
	stay := both(rolledOut("a", end), rolledOut("b", end))
	crash := series{strings.Replace(up("c"), `"c"`, `"`+addressOf("c", 2)+`"`, 1), now + 1, end, 0, 0}
	for name, tt := range map[string]struct {
		exposed   memory
		want      []string
		anonymous []string // if metrics do not name the node
	}{
		"roll-out":                         {both(stay, rolledOut("c", end)), nil, nil},
		"roll-out, and a node was removed": {both(stay, rolledOut("c", now), withoutC), nil, nil},
		"a node was removed":               {both(podOn("a", 1, 0, end), podOn("c", 1, 0, now), withoutC), nil, nil},
		"a machine was off before its node was removed": {
			both(stay, rolledOut("c", now-8), []series{{crash.name, now - 7, now, 0, 0}}, withoutC), nil, nil,
		},
		"a node was removed before its pod ended":  {both(stay, rolledOut("c", now+5), withoutC), nil, nil},
		"a node was removed, and nothing knows it": {both(stay, rolledOut("c", now)), []string{"KernelsymGone node-c"}, nil},
		"a node was removed, and came back an hour later": {
			both(stay, rolledOut("c", now), withoutC, podOn("c", 3, now+60, end), []series{{inCluster("c", 0).name, now + 60, end, 1, 0}}), nil, nil,
		},
		"an agent is gone from its node": {both(stay, rolledOut("c", now), abc), []string{"KernelsymGone node-c"}, nil},
		"an agent did not come back from the roll-out": {
			both(stay, podOn("c", 1, 0, rollOut), abc), []string{"KernelsymGone node-c"}, nil,
		},
		"an agent does not answer": {
			both(stay, rolledOut("c", now), abc, []series{crash}), []string{"KernelsymGone node-c"}, []string{"KernelsymGone c-pod2"},
		},
		"all are gone": {
			both(rolledOut("a", now), rolledOut("b", now), abc), []string{"KernelsymAbsent", "KernelsymGone node-a", "KernelsymGone node-b"},
			[]string{"KernelsymAbsent"},
		},
		"all nodes are removed": {
			both(rolledOut("a", now), rolledOut("b", now), []series{inCluster("a", now), inCluster("b", now), inCluster("c", end)}),
			[]string{"KernelsymAbsent"}, []string{"KernelsymAbsent"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.ElementsMatch(t, tt.want, firedBy(t, tt.exposed))
			for i, s := range tt.exposed {
				if !strings.HasPrefix(s.name, "kube_") {
					tt.exposed[i].name = nodeLabel.ReplaceAllString(s.name, "")
				}
			}
			assert.ElementsMatch(t, tt.anonymous, firedBy(t, tt.exposed), "without the label node")
		})
	}
}

// firedBy returns which alerts have fired before the end, and where: those whose condition held as long as their rule
// demands, at each minute.
func firedBy(t *testing.T, exposed memory) (fired []string) {
	t.Helper()
	for name, rule := range alertRules(t) {
		q, err := newEngine().NewRangeQuery(t.Context(), exposed, nil, rule.Expr, time.Unix(0, 0), time.Unix(end*60, 0), time.Minute)
		require.NoError(t, err, name)
		matrix, err := q.Exec(t.Context()).Matrix()
		require.NoError(t, err, name)
		for _, s := range matrix {
			held := model.Duration(0)
			for i, p := range s.Floats {
				if i == 0 || p.T-s.Floats[i-1].T > time.Minute.Milliseconds() {
					held = 0
				} else {
					held += model.Duration(time.Minute)
				}
				if held >= rule.For {
					fired = append(fired, strings.TrimSpace(name+" "+s.Metric.Get("node")+s.Metric.Get("instance")))
					break
				}
			}
		}
		q.Close()
	}
	return fired
}
