// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/internal/bpf"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/locate"
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/timeline"
	"github.com/kernelsym/kernelsym/internal/uevent"
)

// patience bounds the wait for a source.
const patience = time.Minute

var errSlow = fmt.Errorf("not read within %v: is this machine overloaded?", patience)

// checkSymbols runs each source and reports the symbols that it finds.
func checkSymbols(ctx context.Context, m *machine) (findings []Finding) {
	for _, source := range m.sources {
		start := time.Now()
		table, err := load(ctx, source)
		took := time.Since(start)
		if table != nil {
			m.state.blind += table.BlindTime()
			m.state.nameless += countNameless(table)
		}
		if source.Name() == core {
			m.noteCore(table, err)
		}
		f := m.judgeSymbols(source.Name(), table, err, took)
		m.state.details.add(source.Name(), table, err, took)
		m.state.found.WriteString(f.Found + "\n")
		findings = append(findings, f)
	}
	return findings
}

// noteCore notes whether the symbols of the core kernel can be read. Its build id is known even if they cannot.
func (m *machine) noteCore(table *timeline.Table, err error) {
	m.state.hidden = errors.Is(err, kallsyms.ErrLocated) || table == nil && kallsyms.IsHidden(err)
	if table == nil && m.state.buildID != "" {
		m.state.details.Builds = append(m.state.details.Builds, Build{timeline.KernelName, m.state.buildID})
	}
}

// judgeSymbols returns the finding about the symbols of a source. table is nil if it published nothing.
func (m *machine) judgeSymbols(source string, table *timeline.Table, err error, took time.Duration) Finding {
	f := Finding{Check: "symbols: " + source, Level: OK}
	some := lost[source].some
	if table != nil {
		how := "read"
		if errors.Is(err, kallsyms.ErrLocated) {
			how, some = "located", lostLocated
		}
		f.Found = fmt.Sprintf("%s, %s in %v", describe(source, table), how, took.Round(time.Millisecond))
	}
	if err != nil {
		f.Level = Note // unless the error has reasons that no other finding gives
		if f.Found = strings.TrimPrefix(f.Found+"; incomplete, see above", "; "); table == nil {
			f.Found = "none, see above"
		}
		if news := m.news(source, err); news != "" {
			f.Level, f.Lost, f.Remedy = Warn, some, m.remedies(err)
			f.Found = strings.TrimSuffix(f.Found, ", see above") + ": " + news
		}
	}
	if table == nil {
		f.Level, f.Lost = Warn, lost[source].all
		if source == core {
			f.Level = Fail
		}
	}
	if source == "modules" && m.state.noModules != nil {
		f.Level, f.Found = Note, "not known, see above" // an empty table says nothing
	}
	return f
}

// core is the source without which no kernel code has a name.
const core = "kallsyms"

// lostLocated is what has no name where the core kernel is located.
const lostLocated = "names of modules, and of BPF code that was loaded before the start"

// reasons are the errors that more than one finding can report.
var reasons = []error{
	kallsyms.ErrRestricted, locate.ErrSilent, locate.ErrFew, perfring.ErrPermission, perfring.ErrMemory, perfring.ErrFiles, perfring.ErrUnsupported,
	bpf.ErrPermission, bpf.ErrHidden, bpf.ErrUnsupported, uevent.ErrUnreachable,
}

// withoutAdvice returns a text without what reasons say to change on any machine.
func withoutAdvice(found string) string {
	for _, reason := range reasons {
		fact := reason.Error()
		for _, advice := range []string{": grant ", ": run ", "; raise "} {
			fact, _, _ = strings.Cut(fact, advice)
		}
		found = strings.ReplaceAll(found, reason.Error(), fact)
	}
	return found
}

// news returns the lines of an error of a source whose reason no finding has given yet. If the core kernel was to be located,
// its error has two reasons in one line.
func (m *machine) news(source string, err error) string {
	if m.locate && source == core {
		return err.Error()
	}
	given := func(line, reason string) bool {
		return strings.Contains(line, reason) && strings.Contains(m.state.found.String(), reason)
	}
	var path *fs.PathError
	errors.As(err, &path)
	lines := slices.DeleteFunc(strings.Split(err.Error(), "\n"), func(line string) bool {
		return path != nil && given(line, path.Error()) ||
			slices.ContainsFunc(reasons, func(reason error) bool { return given(line, reason.Error()) })
	})
	return strings.Join(lines, "\n")
}

// lost describes, by source, the loss if some or all of its symbols are missing.
var lost = map[string]struct{ some, all string }{
	core:      {some: lostFileIDs, all: lostNames},
	"modules": {some: "part of what is known of modules", all: "names of code in modules"},
	"bpf":     {some: "part of what is known of BPF programs", all: "names of BPF programs and trampolines"},
}

// load runs a source until it has published once.
func load(ctx context.Context, source symcache.Source) (table *timeline.Table, degraded error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSlow)
	defer cancel()
	return symcache.LoadTable(ctx, source)
}

// countNameless returns the number of BPF functions for which the kernel may have no name.
func countNameless(t *timeline.Table) (n int) {
	for _, image := range t.Loaded() {
		if image.MayBeNameless {
			n++
		}
	}
	return n
}

// things names what a table counts, by origin, in singular and plural.
var things = [timeline.NumOrigins][2]string{
	timeline.OriginKernel:     {"symbol of the core kernel", "symbols of the core kernel"},
	timeline.OriginModule:     {"symbol of modules", "symbols of modules"},
	timeline.OriginBPF:        {"BPF function", "BPF functions"},
	timeline.OriginTrampoline: {"trampoline", "trampolines"},
	timeline.OriginOOL:        {"page of kprobes or ftrace", "pages of kprobes or ftrace"},
}

// describe returns the contents of a source's table, as text.
func describe(source string, t *timeline.Table) string {
	var parts []string
	for origin, count := range t.Count() {
		n := count.Symbols
		switch {
		case n == 1:
			parts = append(parts, "1 "+things[origin][0])
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", n, things[origin][1]))
		case source == "bpf" && timeline.Origin(origin) == timeline.OriginBPF:
			parts = append(parts, "no BPF programs")
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
