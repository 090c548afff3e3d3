// SPDX-License-Identifier: Apache-2.0

package hot

import (
	"cmp"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/profilefile"
	"github.com/kernelsym/kernelsym/internal/otlp"
	"github.com/kernelsym/kernelsym/internal/rewrite"
)

// A Grouping is what samples are grouped by.
type Grouping string

// The groupings.
const (
	ByProcess   Grouping = "process"
	ByThread    Grouping = "thread"
	ByContainer Grouping = "container"
	ByCPU       Grouping = "CPU"
)

// Groupings are all groupings, in the order in which a key goes through them.
var Groupings = []Grouping{ByProcess, ByThread, ByContainer, ByCPU}

func (by Grouping) plural() string {
	if by == ByProcess {
		return "processes"
	}
	return string(by) + "s"
}

// count returns a number of groups as text.
func (by Grouping) count(n int) string {
	if n == 1 {
		return plural.Of(1, string(by))
	}
	return fmt.Sprintf("%d %s", n, by.plural())
}

// task is what was interrupted by a sample.
type task struct {
	pid, tid, cpu   int64 // pid and tid are 0 if not known
	name, container string
}

func readTask(s *rewrite.NamedSample) (t task) {
	value := func(key attribute.Key) otlp.Value {
		v, _ := s.Attribute(string(key))
		return v
	}
	return task{
		pid: value(semconv.ProcessPIDKey).Number, tid: value(semconv.ThreadIDKey).Number, cpu: value(semconv.CPULogicalNumberKey).Number,
		name: value(semconv.ThreadNameKey).Text, container: value(semconv.ContainerIDKey).Text,
	}
}

// key returns the attribute that a sample in a file must have to belong to a group.
func (by Grouping) key() attribute.Key {
	switch by {
	case ByThread:
		return semconv.ThreadIDKey
	case ByContainer:
		return semconv.ContainerIDKey
	case ByCPU:
		return semconv.CPULogicalNumberKey
	}
	return semconv.ProcessPIDKey
}

// member identifies a group, by the fields that belong to the grouping.
type member struct {
	pid, tid, cpu int64
	container     string
	host          string // empty for this machine, and if a file does not say it
	unknown       bool   // the samples of a file that lack the attribute
}

func (m member) String() string {
	return fmt.Sprintf("%d %d %d %s %s %t", m.pid, m.tid, m.cpu, m.container, m.host, m.unknown)
}

// compare orders groups by their ids, those without at the end.
func (m member) compare(o member) int {
	switch {
	case m.unknown && !o.unknown:
		return 1
	case o.unknown && !m.unknown:
		return -1
	}
	return cmp.Or(cmp.Compare(m.pid, o.pid), cmp.Compare(m.tid, o.tid), cmp.Compare(m.cpu, o.cpu), cmp.Compare(m.container, o.container),
		cmp.Compare(m.host, o.host))
}

func (by Grouping) memberOf(t *task) member {
	switch by {
	case ByThread:
		return member{pid: t.pid, tid: t.tid}
	case ByContainer:
		return member{container: t.container}
	case ByCPU:
		return member{cpu: t.cpu}
	}
	return member{pid: t.pid}
}

// memberInFile returns the group of a sample of a file. What kernelsym itself samples lacks an attribute only if that does not
// apply, such as the process of an idle CPU; in a file, the attribute may also have been disabled.
func (by Grouping) memberInFile(s *rewrite.NamedSample, t *task) member {
	var m member
	if _, ok := s.Attribute(string(by.key())); ok {
		m = by.memberOf(t)
	} else {
		m.unknown = true
	}
	m.host = profilefile.Host(s)
	return m
}

// nameIn returns the name that a sample gives its group: to a thread its own, and to a process that of its first thread.
func (by Grouping) nameIn(t *task) string {
	if by == ByThread || by == ByProcess && t.tid == t.pid {
		return t.name
	}
	return ""
}

// ids returns the columns of ids.
func (by Grouping) ids() []string {
	switch by {
	case ByProcess:
		return []string{"PID"}
	case ByThread:
		return []string{"PID", "TID"}
	}
	return nil
}

// idsOf returns the cells of these columns.
func (by Grouping) idsOf(m member) []string {
	switch by {
	case ByProcess:
		return []string{strconvID(m.pid)}
	case ByThread:
		return []string{strconvID(m.pid), strconvID(m.tid)}
	}
	return nil
}

// nameOf returns the text that identifies a group to a reader, beside its ids.
func (by Grouping) nameOf(m member, names map[member]string) string {
	switch {
	case m.unknown:
		return "[not known]"
	case by == ByContainer:
		return cmp.Or(m.container, "[host]")
	case by == ByCPU:
		return fmt.Sprintf("CPU %d", m.cpu)
	case m.pid == 0 && m.tid == 0: // the idle task, a task that has all but exited, or one of another PID namespace
		return "[no process]"
	}
	return cmp.Or(names[m], printable.NoName)
}

// labelOf returns the text that identifies a group to a reader, on its own.
func (by Grouping) labelOf(m member, names map[member]string) string {
	label := by.nameOf(m, names)
	switch {
	case by == ByThread && m.tid != 0:
		return fmt.Sprintf("%s[%d]", label, m.tid)
	case by == ByProcess && m.pid != 0:
		return fmt.Sprintf("%s[%d]", label, m.pid)
	}
	return label
}
