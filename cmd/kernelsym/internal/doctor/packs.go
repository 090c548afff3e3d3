// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kernelsym/kernelsym/internal/pack"
	"github.com/kernelsym/kernelsym/internal/packs"
)

// directory is where the processor would find packs.
type directory string

// Pack reads a pack as a processor does. Its error has no cause, because checkPacks has the remedy.
func (d directory) Pack(_ context.Context, buildID string) (*pack.Pack, error) {
	p, err := packs.Read(string(d), buildID)
	if err != nil {
		return nil, errors.New(err.Error())
	}
	return p, nil
}

// checkPacks looks for the packs of the running builds, as the processor would.
func checkPacks(m *machine) []Finding {
	if m.packs == "" {
		return nil
	}
	if err := packs.Check(m.packs); err != nil {
		return []Finding{m.refusedPacks(err)}
	}
	var missing, symbolsOnly []string
	var findings []Finding
	lined := 0
	for _, b := range m.state.details.Builds {
		p, err := packs.Read(m.packs, b.BuildID)
		switch {
		case err == nil && p.HasLines():
			lined++
		case err == nil:
			symbolsOnly = append(symbolsOnly, m.nameOf(b))
		case packs.ReasonOf(err) == packs.NotFound:
			missing = append(missing, m.nameOf(b))
		default:
			findings = append(findings, m.refusedPacks(err))
		}
	}
	f := Finding{Check: packsCheck, Level: OK, Found: fmt.Sprintf("source lines for %d of %d running builds", lined, len(m.state.details.Builds))}
	if len(symbolsOnly) > 0 {
		f.Level = Note
		f.Found += "; symbols only for " + list(symbolsOnly)
	}
	if len(missing) > 0 {
		f.Level, f.Lost, f.Remedy = Warn, m.lostWithoutPacks(), m.packRemedies(packs.NotFound)
		f.Found += "; no pack of " + list(missing)
	}
	return append([]Finding{f}, findings...)
}

const packsCheck = "packs"

// refusedPacks returns the finding about an error of a pack, or of the directory.
func (m *machine) refusedPacks(err error) Finding {
	found := err.Error()
	if packs.ReasonOf(err) == packs.NotFound { // whose advice is for the processor's configuration
		found = "there is no directory " + m.packs
	}
	return Finding{Check: packsCheck, Level: Warn, Found: found, Lost: m.lostWithoutPacks(), Remedy: m.packRemedies(packs.ReasonOf(err))}
}

// lostWithoutPacks returns what packs would give to this machine.
func (m *machine) lostWithoutPacks() string {
	if m.state.hidden {
		return "names of the core kernel with locate: true, source lines and inlined functions"
	}
	return "source lines and inlined functions; on a gateway also names"
}

// nameOf returns the name of a build. It has the build id where names depend on the pack.
func (m *machine) nameOf(b Build) string {
	if m.state.hidden && b.BuildID == m.state.buildID {
		return b.Name + " (" + b.BuildID + ")"
	}
	return b.Name
}

// packRemedies returns what to do about missing or refused packs.
func (m *machine) packRemedies(reason packs.Reason) []string {
	if reason == packs.Insecure {
		return []string{"chmod -R go-w " + m.packs, "if they belong to another user: chown -R root: " + m.packs}
	}
	if m.state.hidden {
		return []string{"make the pack of the core kernel, as root, from the image that this machine booted: kernelsym pack --boot -d " + m.packs}
	}
	return []string{
		"if the kernel's debug package is installed: kernelsym pack --release " + readText(m.state.settings, "sys/kernel/osrelease") + " -d " + m.packs,
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
