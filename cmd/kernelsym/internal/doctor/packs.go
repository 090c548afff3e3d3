// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/internal/packs"
)

// checkPacks looks for the packs of the running builds, as the processor would.
func checkPacks(m *machine) []Finding {
	if m.packs == "" {
		return nil
	}
	var missing, symbolsOnly []string
	var findings []Finding
	refused := make(map[string]bool) // by error message
	lined := 0
	for _, b := range m.details.Builds {
		p, err := packs.Read(m.packs, b.BuildID)
		switch {
		case err == nil && p.HasLines():
			lined++
		case err == nil:
			symbolsOnly = append(symbolsOnly, b.Name)
		case packs.ReasonOf(err) == packs.NotFound:
			missing = append(missing, b.Name)
		case !refused[err.Error()]:
			refused[err.Error()] = true
			findings = append(findings, Finding{
				Check: packsCheck, Level: Warn, Found: err.Error(), Lost: lostLines, Remedy: m.packRemedies(packs.ReasonOf(err)),
			})
		}
	}
	f := Finding{Check: packsCheck, Level: OK, Found: fmt.Sprintf("source lines for %d of %d running builds", lined, len(m.details.Builds))}
	if len(symbolsOnly) > 0 {
		f.Level = Note
		f.Found += "; symbols only for " + list(symbolsOnly)
	}
	if len(missing) > 0 {
		f.Level, f.Lost, f.Remedy = Warn, lostLines, m.packRemedies(packs.NotFound)
		f.Found += "; no pack of " + list(missing)
	}
	return append([]Finding{f}, findings...)
}

const (
	packsCheck = "packs"
	lostLines  = "source lines and inlined functions; on a gateway also names"
)

// packRemedies returns what to do about missing or refused packs.
func (m *machine) packRemedies(reason packs.Reason) []string {
	if reason == packs.Insecure {
		return []string{"chmod -R go-w " + m.packs, "if they belong to another user: chown -R root: " + m.packs}
	}
	return []string{
		"if the kernel's debug package is installed: kernelsym pack --release " + readText(m.settings, "sys/kernel/osrelease") + " -d " + m.packs,
		"otherwise, as root and for symbols only: kernelsym pack --running -d " + m.packs,
	}
}

// list returns the first few names and the number of others.
func list(names []string) string {
	const few = 5
	slices.Sort(names)
	if n := len(names) - few; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), n)
	}
	return strings.Join(names, ", ")
}
