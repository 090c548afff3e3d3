// SPDX-License-Identifier: Apache-2.0

package deploytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	prometheuslabels "github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	yamlprometheus "go.yaml.in/yaml/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// A command is a command line that deploy/README.md may have. None of them can do its work here: they need a cluster, a
// registry, the Internet, or systemd. So check compares its arguments with the files and objects that they name.
type command struct {
	line  string // a regular expression
	check func(t *testing.T, m *manifest, args []string)
}

var commands = []command{
	{`docker buildx build -f (\S+) -t REGISTRY/(\S+) --platform (\S+) --push \.`, func(t *testing.T, m *manifest, args []string) {
		assert.FileExists(t, repository+"/"+args[0])
		assert.Equal(t, collectorOf(t, m.pods()["kernelsym"].Spec).Image, args[1])
		assert.Equal(t, "linux/amd64,linux/arm64", args[2]) // TestImage and TestImageForAnotherMachine build both
	}},
	{`kubectl (?:apply|delete) -k \.`, nil}, // TestKustomizationsOfTheReadme renders the directory
	{`kubectl apply -n (\S+) -f (\S+)`, func(t *testing.T, _ *manifest, args []string) {
		text, err := os.ReadFile(repository + "/" + args[1])
		require.NoError(t, err)
		var object metav1.PartialObjectMetadata // the tests of each kind decode the rest
		require.NoError(t, yaml.Unmarshal(text, &object))
		assert.NotEmpty(t, object.Kind)
		assert.Contains(t, []string{"", args[0]}, object.Namespace)
	}},
	{`kubectl create namespace (\S+)`, isNamespace},
	{`kubectl label namespace kernelsym (\S+)=(\S+)`, func(t *testing.T, m *manifest, args []string) {
		assert.Equal(t, args[1], m.namespaces[0].Labels[args[0]])
	}},
	{`kubectl label namespace monitoring (\S+)=(\S+)`, func(t *testing.T, m *manifest, args []string) {
		from, _ := peersOf(&m.policies[0], 8888)
		require.Len(t, from, 1)
		selector, err := metav1.LabelSelectorAsSelector(from[0].NamespaceSelector)
		require.NoError(t, err)
		assert.True(t, selector.Matches(labels.Set{args[0]: args[1]}))
	}},
	{`kubectl rollout status -n (\S+) daemonset -l (\S+)`, func(t *testing.T, m *manifest, args []string) {
		isNamespace(t, m, args)
		selects(t, args[1], m.daemonSets[0].Labels)
	}},
	{`kubectl get pods -n (\S+) -l (\S+) -o wide`, func(t *testing.T, m *manifest, args []string) {
		isNamespace(t, m, args)
		selects(t, args[1], m.pods()["kernelsym"].Labels)
	}},
	{`kubectl exec -n (\S+) POD -- /kernelsym (?:doctor(?: --metrics http://IP:8888/metrics| --locate --packs /var/lib/kernelsym/packs)?)`, isNamespace}, // cmd/kernelsym parses its arguments
	{`kubectl logs -n (\S+) POD`, isNamespace},
	{`kubectl get --raw /api/v1/namespaces/(\S+)/pods/POD:(\d+)/proxy/(?:status\?verbose|metrics)`, func(t *testing.T, m *manifest, args []string) {
		isNamespace(t, m, args)
		port, err := strconv.Atoi(args[1])
		require.NoError(t, err)
		_, allowed := peersOf(&m.policies[0], int32(port))
		assert.True(t, allowed, port)
	}},
	{`helm repo add open-telemetry https://open-telemetry\.github\.io/opentelemetry-helm-charts`, nil},
	{`helm install kernelsym open-telemetry/opentelemetry-collector -n (\S+) -f (\S+)`, func(t *testing.T, m *manifest, args []string) {
		isNamespace(t, m, args)
		assert.FileExists(t, repository+"/"+args[1]) // TestHelmValues decodes it
	}},
	{`helm uninstall kernelsym -n (\S+)`, isNamespace},
	{`make (\w+)`, func(t *testing.T, _ *manifest, args []string) {
		text, err := os.ReadFile(repository + "/Makefile")
		require.NoError(t, err)
		assert.Regexp(t, `(?m)^`+args[0]+`:`, string(text))
	}},
	{`systemctl restart (\S+)`, func(t *testing.T, _ *manifest, args []string) { assert.FileExists(t, systemd+args[0]+".service") }},
	{`curl (localhost:\d+)(/\w+)\?verbose`, func(t *testing.T, _ *manifest, args []string) {
		text, err := os.ReadFile(repository + "/deploy/examples/agent.yaml") // the configuration of the unit
		require.NoError(t, err)
		out := collector(t, "print-config", string(text), []string{"OTLP_ENDPOINT=backend:4317"}, "--mode=unredacted")
		config := decode[map[string]map[string]any](t, "print-config", out)
		http := config["extensions"]["health_check"].(map[string]any)["http"].(map[string]any)
		assert.Equal(t, args[0], http["endpoint"])
		assert.Equal(t, args[1], http["status"].(map[string]any)["path"])
	}},
}

func isNamespace(t *testing.T, m *manifest, args []string) {
	t.Helper()
	assert.Equal(t, m.namespaces[0].Name, args[0])
}

func selects(t *testing.T, selector string, set map[string]string) {
	t.Helper()
	s, err := labels.Parse(selector)
	require.NoError(t, err)
	assert.True(t, s.Matches(labels.Set(set)), selector)
}

// checkCommand checks a command that a shell has started.
func checkCommand(t *testing.T, m *manifest, line string) {
	t.Helper()
	for _, c := range commands {
		if match := regexp.MustCompile(`^` + c.line + `$`).FindStringSubmatch(line); match != nil {
			if c.check != nil {
				c.check(t, m, match[1:])
			}
			return
		}
	}
	t.Errorf("no check for %q", line)
}

// runShell runs a script, unchanged, in a shell. It returns the commands that the script started, and its output. The script
// finds recorders in place of the programs of commands, awk, and nothing else. The recorder of kubectl prints answer.
func runShell(t *testing.T, script, answer string) (lines []string, out string) {
	t.Helper()
	dir := t.TempDir()
	programs, record := filepath.Join(dir, "bin"), filepath.Join(dir, "record")
	require.NoError(t, os.Mkdir(programs, 0o700))
	for _, c := range commands {
		name, _, _ := strings.Cut(c.line, " ")
		text := "#!/bin/sh\necho \"${0##*/} $*\" >>\"$RECORD\"\n"
		if name == "kubectl" {
			text += "printf %s \"$ANSWER\"\n"
		}
		require.NoError(t, os.WriteFile(filepath.Join(programs, name), []byte(text), 0o700)) //nolint:gosec // it is a program
	}
	awk, err := exec.LookPath("awk")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(awk, filepath.Join(programs, "awk")))
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-euc", script)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + programs, "RECORD=" + record, "ANSWER=" + answer}
	printed, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", script, printed)
	text, err := os.ReadFile(record)
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(text)), "\n"), string(printed)
}

// TestSnippetsOfTheReadme verifies that a test runs each block of deploy/README.md, as it is.
func TestSnippetsOfTheReadme(t *testing.T) {
	m := render(t, "base")
	for _, s := range snippetsOf(t, "/deploy/README.md") {
		first, _, _ := strings.Cut(s.text, "\n")
		t.Run(s.language+" "+first, func(t *testing.T) {
			switch {
			case s.isKustomization(): // TestKustomizationsOfTheReadme has all
			case s.language == "sh":
				lines, _ := runShell(t, s.text, "")
				for _, line := range lines {
					checkCommand(t, m, line)
				}
			case s.language == "promql": // TestQueryOfTheReadme compares its answers
				_, err := parser.ParseExpr(s.text)
				require.NoError(t, err)
			case strings.HasPrefix(s.text, "service:"): // it changes the configuration of the unit
				file := filepath.Join(t.TempDir(), "more.yaml")
				require.NoError(t, os.WriteFile(file, []byte(s.text), 0o600))
				text, err := os.ReadFile(repository + "/deploy/examples/agent.yaml")
				require.NoError(t, err)
				collector(t, "validate", string(text), []string{"OTLP_ENDPOINT=backend:4317"}, "--config="+file)
			case strings.HasPrefix(s.text, "- source_labels:"):
				checkRelabeling(t, s.text)
			default:
				t.Error("no test runs it")
			}
		})
	}
}

// checkRelabeling verifies that the configuration of a Prometheus gives a pod's series the label node.
func checkRelabeling(t *testing.T, text string) {
	t.Helper()
	var configs []*relabel.Config
	require.NoError(t, yamlprometheus.UnmarshalStrict([]byte(text), &configs))
	for _, c := range configs {
		require.NoError(t, c.Validate(model.UTF8Validation))
	}
	got, keep := relabel.Process(prometheuslabels.FromStrings("__meta_kubernetes_pod_node_name", "some-node"), configs...)
	assert.True(t, keep)
	assert.Equal(t, "some-node", got.Get("node"))
}

// TestCommandsInSentences verifies the commands with arguments in the sentences of deploy/README.md.
func TestCommandsInSentences(t *testing.T) {
	text, err := os.ReadFile(repository + "/deploy/README.md")
	require.NoError(t, err)
	sentences := fenced.ReplaceAllString(string(text), "")
	m := render(t, "base")
	found := 0
	for _, inline := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(sentences, -1) {
		script := strings.Join(strings.Fields(inline[1]), " ")
		program, args, _ := strings.Cut(script, " ")
		if script == "helm install" || script == "helm upgrade" || script == "apt purge" || args == "" || !isProgram(program) {
			continue // the name of a command
		}
		found++
		t.Run(script, func(t *testing.T) {
			lines, _ := runShell(t, script, "")
			require.Len(t, lines, 1)
			checkCommand(t, m, lines[0])
		})
	}
	assert.GreaterOrEqual(t, found, 6)
}

// isProgram reports whether a word is the program of a command.
func isProgram(word string) bool {
	for _, c := range commands {
		if strings.HasPrefix(c.line, word+" ") {
			return true
		}
	}
	return false
}
