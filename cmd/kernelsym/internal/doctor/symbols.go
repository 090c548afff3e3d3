package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// patience bounds how long a source is waited for.
const patience = time.Minute

// checkSymbols has each source find its symbols.
func checkSymbols(ctx context.Context, m *machine) (findings []Finding) {
	for _, source := range m.sources {
		start := time.Now()
		table, err := load(ctx, source)
		f := Finding{Check: "symbols: " + source.Name(), Level: OK}
		if table != nil {
			f.Found = fmt.Sprintf("%s, read in %v", describe(table), time.Since(start).Round(time.Millisecond))
		}
		if err != nil {
			f.Level, f.Lost, f.Remedy = Warn, lost[source.Name()].some, m.remedies(err)
			f.Found = strings.TrimPrefix(f.Found+"; ", "; ") + err.Error()
		}
		if table == nil {
			f.Lost = lost[source.Name()].all
			if source.Name() == core {
				f.Level = Fail
			}
		}
		findings = append(findings, f)
	}
	return findings
}

// core is the source without which nothing has a name.
const core = "kallsyms"

// lost says what is lost without some or all of the symbols of a source.
var lost = map[string]struct{ some, all string }{
	core:      {some: lostFileIDs, all: lostNames},
	"modules": {some: "what is said of modules", all: "names of code in modules"},
	"bpf":     {some: "what perf events and bpf(2) would tell", all: "names of BPF programs and trampolines"},
}

// load runs a source until it has published once.
func load(ctx context.Context, source symcache.Source) (table *symtab.Table, degraded error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := source.Run(ctx, func(t *symtab.Table, why error) {
		table, degraded = t, why
		cancel()
	})
	if table == nil {
		return nil, err
	}
	return table, degraded
}

// describe counts what a table has.
func describe(t *symtab.Table) string {
	names := [symtab.NumOrigins]string{"of the core kernel", "of modules", "of BPF functions", "of trampolines", "of out-of-line pages"}
	text := ""
	for origin, n := range t.Symbols() {
		if n > 0 {
			text += fmt.Sprintf(", %d %s", n, names[origin])
		}
	}
	if text == "" {
		return "none"
	}
	return text[2:]
}
