// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/colmetrics"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
)

const (
	deliveryCheck = "delivery"
	lostSamples   = "these samples do not reach the backend"
)

// pace says how long to watch a collector.
type pace struct {
	arrive time.Duration // until samples arrive: profilers send every 5 s or 10 s
	send   time.Duration // from then until an exporter has sent some
	poll   time.Duration
}

var usualPace = pace{arrive: 20 * time.Second, send: 5 * time.Second, poll: time.Second}

// traffic counts the samples that a collector has received and sent since it started.
type traffic struct {
	arrived   float64         // whether or not all of the pipeline accepted them
	exporters map[string]sent // by the id of the exporter
	ours      []string        // the lines about kernelsym and the process
}

// sent is what an exporter has done with samples.
type sent struct {
	sent, failed float64
	waiting      float64 // messages in its queue
}

// counted matches a metric of the collector's helpers for receivers and exporters (receiverhelper and exporterhelper of
// its version 0.165). The suffix depends on the configuration.
var (
	counted    = regexp.MustCompile(`^otelcol_(receiver_(?:accepted|refused|failed)_profile_samples|exporter_(?:sent_profile_samples|(?:send|enqueue)_failed_profile_samples|queue_size))(?:_total)?\{(.*)\} (\S+)$`)
	ofExporter = regexp.MustCompile(`(?:^|,)exporter="([^"]*)"`)
	ofProfiles = regexp.MustCompile(`(?:^|,)data_type="profiles"`)
	ours       = regexp.MustCompile(`^otelcol_(?:processor_kernelsym_|receiver_kernelstack_|process_)`)
)

// readTraffic reads the metrics that a collector serves.
func readTraffic(ctx context.Context, address string) (*traffic, error) {
	t := &traffic{exporters: make(map[string]sent)}
	err := colmetrics.Read(ctx, address, func(line []byte) {
		if ours.Match(line) {
			t.ours = append(t.ours, string(line))
		}
		match := counted.FindSubmatch(line)
		if match == nil {
			return
		}
		if value, err := strconv.ParseFloat(string(match[3]), 64); err == nil {
			t.add(string(match[1]), string(match[2]), value)
		}
	})
	return t, err
}

func (t *traffic) add(metric, labels string, value float64) {
	if strings.HasPrefix(metric, "receiver_") {
		t.arrived += value
		return
	}
	id := ofExporter.FindStringSubmatch(labels)
	if id == nil || metric == "exporter_queue_size" && !ofProfiles.MatchString(labels) {
		return
	}
	e := t.exporters[id[1]]
	switch metric {
	case "exporter_sent_profile_samples":
		e.sent += value
	case "exporter_queue_size":
		e.waiting += value
	default:
		e.failed += value
	}
	t.exporters[id[1]] = e
}

// checkDelivery watches a collector, and says whether samples arrive and each exporter sends some.
func checkDelivery(ctx context.Context, m *machine) []Finding {
	if m.metrics == "" {
		return nil
	}
	before, after, waited, err := watch(ctx, m)
	if err == nil {
		m.state.details.Metrics = after.ours
	}
	switch {
	case err != nil:
		return []Finding{{
			Check: deliveryCheck, Level: Warn, Found: fmt.Sprintf("the metrics could not be read: %v", err), Lost: "this check",
			Remedy: []string{"give the URL of the collector's metrics; in a pod, its host is the pod's address"},
		}}
	case after.arrived <= before.arrived:
		return []Finding{{
			Check: deliveryCheck, Level: Warn,
			Found:  fmt.Sprintf("no sample arrived within %s, and %.0f before", waited, before.arrived),
			Lost:   "there is nothing to name",
			Remedy: []string{"check the profiler: does it run on this node, and does it send to this collector?"},
		}}
	case len(after.exporters) == 0:
		return []Finding{{
			Check: deliveryCheck, Level: Warn, Found: "no exporter has sent anything", Lost: lostSamples, Remedy: deliveryRemedy,
		}}
	}
	findings := make([]Finding, 0, len(after.exporters))
	for _, id := range slices.Sorted(maps.Keys(after.exporters)) {
		findings = append(findings, judge(id, before.exporters[id], after.exporters[id], after.arrived-before.arrived, waited))
	}
	return findings
}

var deliveryRemedy = []string{"read the collector's log, which says why an exporter cannot send, and check the backend's address"}

// watch reads the metrics until samples have arrived and there was time to send them.
func watch(ctx context.Context, m *machine) (before, after *traffic, waited time.Duration, err error) {
	if before, err = readTraffic(ctx, m.metrics); err != nil {
		return nil, nil, 0, err
	}
	start, deadline := time.Now(), time.Now().Add(m.pace.arrive)
	for after = before; after.arrived <= before.arrived && time.Now().Before(deadline); {
		sleep(ctx, m.pace.poll)
		if after, err = readTraffic(ctx, m.metrics); err != nil {
			return nil, nil, 0, err
		}
	}
	if after.arrived > before.arrived {
		arrived := after.arrived
		sleep(ctx, m.pace.send)
		if after, err = readTraffic(ctx, m.metrics); err != nil {
			return nil, nil, 0, err
		}
		after.arrived = arrived // what came since may still be on its way
	}
	return before, after, time.Since(start).Round(time.Second), nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// judge compares the counts of an exporter before and after samples arrived.
func judge(id string, before, after sent, arrived float64, waited time.Duration) Finding {
	f := Finding{Check: deliveryCheck, Level: Warn, Lost: lostSamples, Remedy: deliveryRemedy}
	switch {
	case after.failed > before.failed:
		f.Found = fmt.Sprintf("exporter %s failed to send %.0f samples within %s", id, after.failed-before.failed, waited)
	case after.sent <= before.sent:
		f.Found = fmt.Sprintf("exporter %s sent nothing within %s, although %.0f samples arrived", id, waited, arrived)
	case after.failed > 0:
		return Finding{Check: deliveryCheck, Level: Note, Found: fmt.Sprintf(
			"exporter %s sends, but has failed to send %.0f samples since the collector started", id, after.failed)}
	default:
		return Finding{Check: deliveryCheck, Level: OK, Found: fmt.Sprintf("exporter %s sent %.0f samples within %s", id, after.sent-before.sent, waited)}
	}
	if after.waiting > 0 {
		f.Found += "; " + plural.Of(int(after.waiting), "message") + " in its queue"
	}
	return f
}
