// SPDX-License-Identifier: Apache-2.0

package kubernetestest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// version returns the version of the source.
func version(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(repository + "/cmd/kernelsym/main.go")
	require.NoError(t, err)
	match := regexp.MustCompile(`(?m)^const version = "(.+)"$`).FindSubmatch(text)
	require.NotNil(t, match)
	return string(match[1])
}

// A deployment is kernelsym in a cluster, with profilers that send to it and a backend that it sends to.
type deployment struct {
	*testing.T // of the step
	whole      *testing.T
	cluster    *cluster
	received   *received
}

// TestKubernetes applies one configuration of the manifests after the other to a cluster, as users do who change theirs.
func TestKubernetes(t *testing.T) {
	c := newCluster(t)
	d := &deployment{t, t, c, newReceived(t, c.nodes[0])}
	d.begin()
	for _, step := range []struct {
		name string
		test func(*deployment)
	}{
		{"Base", (*deployment).base},
		{"EachNodeIsNamedByItsOwnAgent", (*deployment).eachNodeByItsOwnAgent},
		{"RollOut", (*deployment).rollOut},
		{"Restart", (*deployment).restart},
		{"Liveness", (*deployment).liveness},
		{"Eviction", (*deployment).eviction},
		{"NoSysAdmin", (*deployment).noSysAdmin},
		{"HostMounts", (*deployment).hostMounts},
		{"Operator", (*deployment).operator},
		{"NetworkPolicy", (*deployment).networkPolicy},
		{"Kernelstack", (*deployment).kernelstack},
		{"OffCPU", (*deployment).offCPU},
		{"Gateway", (*deployment).gateway},
		{"CrashingProfiler", (*deployment).crashingProfiler},
		{"Removal", (*deployment).removal},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			d.T, c.t, d.received.t = t, t, t
			step.test(d)
		}) {
			break
		}
	}
	d.T, c.t = t, t
	if t.Failed() {
		out, _ := c.try("get", "all,events", "--all-namespaces", "-o", "wide")
		t.Log(out)
	}
}

// begin starts the backend and the profilers.
func (d *deployment) begin() {
	d.Helper()
	for _, file := range []string{"testdata/backend.yaml", "testdata/senders.yaml"} {
		text, err := os.ReadFile(file)
		require.NoError(d, err)
		d.cluster.applyText(strings.NewReplacer(
			"IMAGE", "otelcol-kernelsym:"+version(d.T), "RECEIVED", filepath.Dir(d.received.file),
		).Replace(string(text)))
	}
	d.cluster.kubectl("rollout", "status", "-n", "backend", "deployment/backend", "--timeout=60s")
	d.cluster.kubectl("rollout", "status", "-n", "senders", "daemonset/sender", "--timeout=60s")
}

// A kustomization has the fields that users set. Its components are directories of deploy/kubernetes.
type kustomization struct {
	components []string
	patches    []map[string]any
}

// apply applies the base with components, as deploy/README.md says, and waits until all pods are ready.
func (d *deployment) apply(k kustomization) {
	d.Helper()
	dir := d.write(k)
	d.cluster.kubectl("apply", "-k", dir)
	d.cluster.updateDNS()
	d.checkUnchanged(dir)
	d.ready()
}

// write writes a kustomization.yaml to a new directory.
func (d *deployment) write(k kustomization) (dir string) {
	d.Helper()
	dir, err := filepath.EvalSymlinks(d.TempDir())
	require.NoError(d, err)
	relative := func(name string) string {
		absolute, err := filepath.Abs(filepath.Join(repository, "deploy/kubernetes", name))
		require.NoError(d, err)
		path, err := filepath.Rel(dir, absolute)
		require.NoError(d, err)
		return path
	}
	components := []string{}
	for _, name := range k.components {
		components = append(components, relative("components/"+name))
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
		"resources": []string{relative("base")}, "components": components, "patches": k.patches,
		"configMapGenerator": []map[string]any{{
			"name": "kernelsym-backend", "namespace": "kernelsym", "behavior": "merge", "literals": []string{"OTLP_ENDPOINT=backend.backend:4317"},
		}},
	})
	require.NoError(d, err)
	require.NoError(d, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), text, 0o600))
	return dir
}

// checkUnchanged verifies that applying the same again changes nothing.
func (d *deployment) checkUnchanged(dir string) {
	d.Helper()
	version := func(object string) string {
		return d.cluster.kubectl("get", "-n", "kernelsym", object, "-o", "jsonpath={.metadata.generation}")
	}
	budgets := strings.Fields(d.cluster.kubectl("get", "-n", "kernelsym", "poddisruptionbudgets", "-o", "name"))
	before := make(map[string]string)
	for _, budget := range budgets {
		before[budget] = version(budget)
	}
	for line := range strings.Lines(d.cluster.kubectl("apply", "-k", dir)) {
		// kubectl replaces the selector of a budget each time, by the same one.
		object, result, _ := strings.Cut(strings.TrimSpace(line), " ")
		assert.True(d, result == "unchanged" || result == "configured" && before[object] != "", line)
	}
	for _, budget := range budgets {
		assert.Equal(d, before[budget], version(budget))
	}
}

// ready waits until all pods are ready.
func (d *deployment) ready() {
	d.Helper()
	for line := range strings.Lines(d.cluster.kubectl("get", "-n", "kernelsym", "-l", "app.kubernetes.io/name=kernelsym", "-o", "name", "daemonsets,deployments")) {
		d.cluster.kubectl("rollout", "status", "-n", "kernelsym", strings.TrimSpace(line), "--timeout=120s")
	}
}

// pods returns the pods of a component that are not about to end.
func (d *deployment) pods(component string) (list []corev1.Pod) {
	d.Helper()
	for _, pod := range get[corev1.PodList](d.cluster, "pods", "-n", "kernelsym", "-l", "app.kubernetes.io/component="+component).Items {
		if pod.DeletionTimestamp == nil {
			list = append(list, pod)
		}
	}
	return list
}

// agents returns the agents. Each node must have exactly one.
func (d *deployment) agents() []corev1.Pod {
	d.Helper()
	list := d.pods("agent")
	nodes := make([]string, 0, len(list))
	for _, pod := range list {
		nodes = append(nodes, pod.Spec.NodeName)
	}
	require.ElementsMatch(d, []string{"node1", "node2"}, nodes)
	return list
}

// process returns the process of our collector in a pod, as this machine numbers it.
func (d *deployment) process(pod *corev1.Pod) int {
	d.Helper()
	found := 0
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	require.NoError(d, err)
	for _, file := range files {
		cgroup, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(cgroup), string(pod.UID)) {
			continue
		}
		if program, err := os.Readlink(filepath.Join(filepath.Dir(file), "exe")); err == nil && program == "/otelcol-kernelsym" {
			_, err := fmt.Sscanf(file, "/proc/%d/", &found)
			require.NoError(d, err)
		}
	}
	require.NotZero(d, found, "%s has no process", pod.Name)
	return found
}

// checkRights verifies the capabilities of the collector in each pod.
func (d *deployment) checkRights(pods []corev1.Pod, capabilities ...int) {
	d.Helper()
	mask := uint64(0)
	for _, c := range capabilities {
		mask |= 1 << c
	}
	for i := range pods {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.process(&pods[i])))
		require.NoError(d, err)
		for _, line := range []string{
			fmt.Sprintf("CapPrm:\t%016x", mask), fmt.Sprintf("CapEff:\t%016x", mask), fmt.Sprintf("CapBnd:\t%016x", mask), "NoNewPrivs:\t1", "Seccomp:\t2",
		} {
			assert.Contains(d, string(status), line+"\n", pods[i].Name)
		}
	}
}

// violations returns the API server's warnings about the namespace's pods at a level of the Pod Security
// Standards.
func (d *deployment) violations(level string) string {
	d.Helper()
	return d.cluster.kubectl("label", "--dry-run=server", "--overwrite", "namespace", "kernelsym", "pod-security.kubernetes.io/enforce="+level)
}

// checkPodSecurity verifies which settings of pods the level baseline does not allow. Pods are named up to
// the first random part.
func (d *deployment) checkPodSecurity(want ...string) {
	d.Helper()
	said := d.violations("baseline")
	var got []string
	for _, match := range regexp.MustCompile(`(?m)^Warning: (kernelsym(?:-gateway|-ebpf-profiler)?)-[^:\n]*: (.*)$`).FindAllStringSubmatch(said, -1) {
		got = append(got, match[1]+": "+match[2])
	}
	assert.ElementsMatch(d, want, got, said)
}

// checkNamed verifies that from now on, kernel frames arrive from each node with names. A frame of unloaded
// code may lack one.
func (d *deployment) checkNamed() {
	d.Helper()
	d.received.skip()
	d.cluster.eventually("named frames of each node", time.Minute, func() error {
		for _, n := range d.cluster.nodes {
			got := d.received.read()[n.name]
			if got == nil || got.named < 200 || got.bare*10 > got.named {
				return fmt.Errorf("%s: %+v", n.name, got)
			}
		}
		return nil
	})
}

// senderErrors returns how many requests of profilers failed.
func (d *deployment) senderErrors() int {
	d.Helper()
	return strings.Count(d.cluster.kubectl("logs", "-n", "senders", "-l", "app=sender", "--tail=-1"), "Exporting failed")
}

// status returns the status of the collector in a pod, including all components.
func (d *deployment) status(pod *corev1.Pod) string {
	d.Helper()
	return d.cluster.kubectl("get", "--raw", "/api/v1/namespaces/kernelsym/pods/"+pod.Name+":13133/proxy/status?verbose")
}

// metrics returns the metrics of a pod.
func (d *deployment) metrics(pod *corev1.Pod) string {
	d.Helper()
	return d.cluster.kubectl("get", "--raw", "/api/v1/namespaces/kernelsym/pods/"+pod.Name+":8888/proxy/metrics")
}

func (d *deployment) base() {
	began := time.Now()
	d.apply(kustomization{})
	d.Logf("ready after %s", time.Since(began).Round(time.Second))
	d.checkNamed()
	d.Logf("names after %s", time.Since(began).Round(time.Second))
	agents := d.agents()
	d.checkRights(agents, unix.CAP_SYSLOG, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN)
	d.checkPodSecurity("kernelsym: non-default capabilities")
	for i := range agents {
		assert.Contains(d, d.status(&agents[i]), `"processor:kernelsym":{"healthy":true,"status":"StatusOK"`)
		d.cluster.kubectl("exec", "-n", "kernelsym", agents[i].Name, "--", "/kernelsym", "doctor")
	}
	d.checkDelivery(&agents[0])
}

// checkDelivery verifies that doctor, in a pod, says whether profiles reach the backend, and has the metrics for a bug report.
func (d *deployment) checkDelivery(pod *corev1.Pod) {
	d.Helper()
	doctor := func(args ...string) (string, error) {
		return d.cluster.try(append([]string{"exec", "-n", "kernelsym", pod.Name, "--", "/kernelsym", "doctor"}, args...)...)
	}
	watch := "--metrics=http://" + pod.Status.PodIP + ":8888/metrics"
	said, err := doctor(watch)
	require.NoError(d, err)
	assert.Regexp(d, `exporter otlp_grpc sent [1-9]\d* samples within`, said)
	content, err := doctor(watch, "--output", "json")
	require.NoError(d, err)
	assert.Contains(d, content, "otelcol_processor_kernelsym_frames")

	d.cluster.kubectl("scale", "-n", "backend", "deployment/backend", "--replicas=0")
	defer d.cluster.kubectl("rollout", "status", "-n", "backend", "deployment/backend", "--timeout=60s")
	defer d.cluster.kubectl("scale", "-n", "backend", "deployment/backend", "--replicas=1")
	d.cluster.kubectl("wait", "-n", "backend", "--for=delete", "pod", "-l", "app=backend", "--timeout=60s")
	said, err = doctor(watch)
	require.Error(d, err)
	assert.Contains(d, said, "exporter otlp_grpc sent nothing within")
	assert.Contains(d, d.status(pod), `"exporter:otlp_grpc":{"healthy":true,"status":"StatusOK"`, "the status does not show it")
}

// eachNodeByItsOwnAgent verifies that no agent gets the frames of another node, and that frames stay as they
// are if their sender claims to be another node.
func (d *deployment) eachNodeByItsOwnAgent() {
	const foreign = `outcome="foreign"`
	for _, pod := range d.agents() {
		assert.NotRegexp(d, `(?m)^otelcol_processor_kernelsym_frames\{[^\n]*`+foreign+`[^\n]* [1-9]`, d.metrics(&pod))
	}
	d.cluster.kubectl("scale", "-n", "senders", "deployment/impostor", "--replicas=1")
	defer d.cluster.kubectl("scale", "-n", "senders", "deployment/impostor", "--replicas=0")
	d.cluster.eventually("foreign frames", time.Minute, func() error {
		for _, pod := range d.agents() {
			counted := regexp.MustCompile(`(?m)^otelcol_processor_kernelsym_frames\{[^\n]*` + foreign + `[^\n]* [1-9]`).MatchString(d.metrics(&pod))
			if counted != (pod.Spec.NodeName == "node1") {
				return fmt.Errorf("foreign frames counted on %s: %t", pod.Spec.NodeName, counted)
			}
		}
		if got := d.received.read()["node2"]; got == nil || got.bare == 0 {
			return errors.New("the impostor's frames have not arrived")
		}
		return nil
	})
}

// rollOut verifies that no request of a profiler fails while new versions roll out.
func (d *deployment) rollOut() {
	before := d.senderErrors()
	for range 2 {
		old := d.agents()
		d.cluster.kubectl("rollout", "restart", "-n", "kernelsym", "daemonset/kernelsym")
		d.ready()
		d.checkNamed()
		for _, pod := range d.agents() {
			assert.False(d, slices.ContainsFunc(old, func(p corev1.Pod) bool { return p.Name == pod.Name }))
		}
	}
	time.Sleep(10 * time.Second) // the last pod has ended, and who lost its connection has tried again
	assert.Zero(d, d.senderErrors()-before, "failed requests")
}

// restart verifies that an agent that was killed begins again, and names what its node sends.
func (d *deployment) restart() {
	pod := d.agents()[0]
	require.NoError(d, unix.Kill(d.process(&pod), unix.SIGKILL))
	d.waitForRestart(&pod, time.Minute)
	d.checkNamed()
}

// waitForRestart waits until the collector of a pod has started again, and is ready.
func (d *deployment) waitForRestart(pod *corev1.Pod, patience time.Duration) {
	d.Helper()
	before := pod.Status.ContainerStatuses[0].RestartCount
	d.cluster.eventually("a restart", patience, func() error {
		if s := get[corev1.Pod](d.cluster, "pod", "-n", "kernelsym", pod.Name).Status.ContainerStatuses[0]; s.RestartCount <= before || !s.Ready {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

// liveness verifies that an agent that hangs is restarted.
func (d *deployment) liveness() {
	pod := d.agents()[1]
	require.NoError(d, unix.Kill(d.process(&pod), unix.SIGSTOP))
	d.waitForRestart(&pod, 3*time.Minute)
	d.checkNamed()
}

// eviction verifies that an agent may be evicted, and that its node gets another.
func (d *deployment) eviction() {
	pod := d.agents()[0]
	d.evict(&pod)
	d.cluster.eventually("another agent", time.Minute, func() error {
		if len(d.pods("agent")) != 2 || slices.ContainsFunc(d.pods("agent"), func(p corev1.Pod) bool { return p.Name == pod.Name }) {
			return errors.New("not yet")
		}
		return nil
	})
	d.ready()
	d.checkNamed()
}

func (d *deployment) evict(pod *corev1.Pod) {
	d.Helper()
	require.NoError(d, d.tryEvict(pod))
}

func (d *deployment) tryEvict(pod *corev1.Pod) error {
	cmd := d.cluster.command("create", "--raw", "/api/v1/namespaces/kernelsym/pods/"+pod.Name+"/eviction", "-f", "-")
	cmd.Stdin = strings.NewReader(fmt.Sprintf(
		`{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": %q, "namespace": "kernelsym"}}`, pod.Name))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func (d *deployment) noSysAdmin() {
	d.apply(kustomization{components: []string{"no-sys-admin"}})
	d.checkNamed()
	d.checkRights(d.agents(), unix.CAP_SYSLOG, unix.CAP_PERFMON)
	d.checkPodSecurity("kernelsym: non-default capabilities")
	assert.Contains(d, d.status(&d.agents()[0]), "grant CAP_SYS_ADMIN")
}

// hostMounts verifies that the mounts show the node's files. On a kernel without modules, the README's patch
// is needed.
func (d *deployment) hostMounts() {
	k := kustomization{components: []string{"host-mounts"}}
	if _, err := os.Stat("/proc/modules"); err != nil {
		k.patches = append(k.patches, d.patchOfReadme("mountPath: /host/proc/modules"))
	}
	d.apply(k)
	d.checkNamed()
	agents := d.agents()
	d.checkRights(agents, unix.CAP_SYSLOG, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN)
	d.checkPodSecurity("kernelsym: non-default capabilities, hostPath volumes")
	d.cluster.kubectl("exec", "-n", "kernelsym", agents[0].Name, "--", "/kernelsym", "doctor", "--procfs", "/host/proc", "--sysfs", "/host/sys")
}

// patchOfReadme returns the first patch in deploy/README.md that contains something.
func (d *deployment) patchOfReadme(part string) map[string]any {
	d.Helper()
	readme, err := os.ReadFile(repository + "/deploy/README.md")
	require.NoError(d, err)
	for _, block := range regexp.MustCompile("(?s)```yaml\n(patches:.*?)```").FindAllStringSubmatch(string(readme), -1) {
		if !strings.Contains(block[1], part) {
			continue
		}
		var k struct {
			Patches []map[string]any `json:"patches"`
		}
		require.NoError(d, yaml.Unmarshal([]byte(block[1]), &k))
		return k.Patches[0]
	}
	require.Fail(d, "no patch in deploy/README.md", part)
	return nil
}

// operator verifies that the API server takes the objects for the Prometheus operator. The kinds stand for the operator's.
func (d *deployment) operator() {
	for kind, plural := range map[string]string{"PodMonitor": "podmonitors", "PrometheusRule": "prometheusrules"} {
		d.cluster.applyText(fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: %[2]s, plural: %[1]s, singular: %[3]s}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, plural, kind, strings.ToLower(kind)))
		d.cluster.kubectl("wait", "--for=condition=Established", "crd/"+plural+".monitoring.coreos.com", "--timeout=30s")
	}
	d.apply(kustomization{components: []string{"prometheus-operator"}})
	d.checkNamed()
}

// networkPolicy verifies that only namespaces with the label may send, and that all may ask for health.
func (d *deployment) networkPolicy() {
	for _, n := range d.cluster.nodes {
		n.start(d.whole, []string{"NODE_NAME=" + n.name}, kubernetesProgram("kube-router"), "--kubeconfig="+d.cluster.admin,
			"--run-firewall", "--run-router=false", "--run-service-proxy=false", "--run-loadbalancer=false",
			"--hostname-override="+n.name, "--service-cluster-ip-range=10.96.0.0/16", "--iptables-sync-period=5s")
	}
	d.apply(kustomization{components: []string{"network-policy"}})
	d.cluster.kubectl("rollout", "restart", "-n", "senders", "daemonset/sender")
	d.cluster.kubectl("rollout", "status", "-n", "senders", "daemonset/sender", "--timeout=60s")
	d.received.skip()
	time.Sleep(15 * time.Second)
	assert.Empty(d, d.received.read(), "no sender is allowed")
	d.status(&d.agents()[0])
	d.cluster.kubectl("label", "namespace", "senders", "kernelsym/sends-profiles=true")
	d.checkNamed()
	d.cluster.kubectl("delete", "-n", "kernelsym", "networkpolicy/kernelsym")
}

// kernelstack verifies that the agents sample their nodes themselves, and that none is sampled twice during a roll-out.
func (d *deployment) kernelstack() {
	d.cluster.kubectl("delete", "-n", "senders", "daemonset/sender", "--wait")
	d.apply(kustomization{components: []string{"kernelstack"}})
	d.checkNamed()
	agents := d.agents()
	d.checkRights(agents, unix.CAP_SYSLOG, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN)
	d.checkPodSecurity("kernelsym: non-default capabilities, hostPath volumes")
	status := d.status(&agents[0])
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		assert.NotContains(d, status, "containers are not known")
	} else {
		assert.Contains(d, status, "containers are not known")
	}
	d.received.skip()
	began := d.received.offset
	d.cluster.kubectl("rollout", "restart", "-n", "kernelsym", "daemonset/kernelsym")
	d.ready()
	d.checkNamed()
	d.received.offset = began
	for _, n := range d.cluster.nodes {
		got := d.received.read()[n.name]
		require.Greater(d, len(got.intervals), 1)
		assert.LessOrEqual(d, got.overlap(), int64(time.Millisecond), "profiles of %s overlap: it was sampled twice", n.name)
	}
}

// offCPU verifies that the agents ask for what threads wait for, with the node's PID namespace. These nodes are not in the
// initial one: there, the status says so, and the other samples go on.
func (d *deployment) offCPU() {
	d.apply(kustomization{components: []string{"off-cpu"}})
	d.checkNamed()
	agents := d.agents()
	assert.True(d, agents[0].Spec.HostPID)
	d.checkRights(agents, unix.CAP_SYSLOG, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN)
	d.checkPodSecurity("kernelsym: non-default capabilities, host namespaces, hostPath volumes")
	assert.Contains(d, d.status(&agents[0]), "waits cannot be sampled: this process must be in the initial PID namespace")
}

// gateway verifies the second tier: it scales, it is spread, and neither a roll-out nor an eviction loses a request.
func (d *deployment) gateway() {
	text, err := os.ReadFile("testdata/senders.yaml")
	require.NoError(d, err)
	d.cluster.applyText(strings.ReplaceAll(string(text), "IMAGE", "otelcol-kernelsym:"+version(d.T)))
	d.apply(kustomization{components: []string{"gateway"}})
	d.cluster.eventually("the autoscaler makes a second pod", time.Minute, func() error {
		if n := len(d.pods("gateway")); n != 2 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
	d.ready()
	d.checkNamed()
	pods := d.pods("gateway")
	assert.NotEqual(d, pods[0].Spec.NodeName, pods[1].Spec.NodeName)
	d.checkRights(pods)
	d.checkPodSecurity("kernelsym: non-default capabilities")
	assert.NotContains(d, d.violations("restricted"), "kernelsym-gateway")
	d.checkGatewayStatus(&pods[0])

	before := d.senderErrors()
	d.cluster.kubectl("rollout", "restart", "-n", "kernelsym", "deployment/kernelsym-gateway")
	d.ready()
	d.checkNamed()
	pods = d.pods("gateway")
	d.evict(&pods[0])
	require.ErrorContains(d, d.tryEvict(&pods[1]), "disruption budget", "at most one at a time")
	d.ready()
	d.checkNamed()
	assert.Zero(d, d.senderErrors()-before, "failed requests")
}

// checkGatewayStatus verifies that a gateway without packs says what to set.
func (d *deployment) checkGatewayStatus(pod *corev1.Pod) {
	d.Helper()
	assert.Contains(d, d.status(pod), "open /var/lib/kernelsym/packs: no such file or directory: create it, or set debug_info::url to fetch packs")
}

// crashingProfiler verifies that a node keeps its agent when the eBPF profiler in it ends again and again.
// Its image is not available, so busybox stands in for it.
func (d *deployment) crashingProfiler() {
	d.apply(kustomization{components: []string{"ebpf-profiler"}})
	d.cluster.kubectl("set", "image", "-n", "kernelsym", "daemonset/kernelsym-ebpf-profiler", "ebpf-profiler="+busybox)
	d.cluster.eventually("the profiler crashes", time.Minute, func() error {
		pods := get[corev1.PodList](d.cluster, "pods", "-n", "kernelsym", "-l", "app.kubernetes.io/name=ebpf-profiler").Items
		for _, pod := range pods {
			if len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].RestartCount > 0 {
				return nil
			}
		}
		return fmt.Errorf("%d pods, none crashes", len(pods))
	})
	set := get[appsv1.DaemonSet](d.cluster, "daemonset", "-n", "kernelsym", "kernelsym")
	assert.Equal(d, int32(2), set.Status.NumberReady)
	d.checkNamed()
	d.checkPodSecurity("kernelsym: non-default capabilities", "kernelsym-ebpf-profiler: host namespaces, hostPath volumes, privileged")
}

// removal verifies that `kubectl delete -k` leaves nothing.
func (d *deployment) removal() {
	d.cluster.kubectl("delete", "-k", d.write(kustomization{components: []string{"ebpf-profiler"}}), "--timeout=60s")
	_, err := d.cluster.try("get", "namespace", "kernelsym")
	require.ErrorContains(d, err, "not found")
	out, _ := exec.CommandContext(d.Context(), "pgrep", "-f", "config=/etc/otelcol-kernelsym").CombinedOutput()
	assert.Empty(d, string(out))
}
