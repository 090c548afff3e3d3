// SPDX-License-Identifier: Apache-2.0

package packer

import (
	"debug/elf"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/dwarfpack"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kelf"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// ErrOtherBuild is returned for a file of a build other than the one wanted.
var ErrOtherBuild = errors.New("of another build")

// run makes one pack from a file of size bytes. The error names the file.
func (o *Options) run(job Job, size int64) (r Result, err error) {
	done := int64(0)
	progress := func(at, total int64) {
		if now := int64(float64(size) * float64(at) / float64(max(total, 1))); now > done {
			o.add(now - done)
			done = now
		}
	}
	defer progress(1, 1)
	f, err := kelf.Open(job.Debug)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, symbols, err := job.symbols(f)
	if err != nil {
		return r, err
	}
	if len(symbols) == 0 {
		return Result{WithoutCode: 1}, nil
	}
	w := pack.NewWriter(info)
	hasLines := false
	if !o.SymbolsOnly {
		hasLines, err = dwarfpack.Build(f, w, progress)
		if err != nil && !errors.Is(err, dwarfpack.ErrNoDebugInfo) {
			return r, err
		}
	}
	data, err := encode(w, symbols)
	if err != nil {
		return r, fmt.Errorf("%s: %w", job.Debug, err)
	}
	return o.write(info.BuildID, data, hasLines)
}

func encode(w *pack.Writer, symbols []pack.Symbol) ([]byte, error) {
	for _, s := range symbols {
		w.Symbol(s)
	}
	return w.Bytes()
}

// symbols returns the symbols and the pack.Info of a build, and checks that it is the build wanted.
// f is the open file with the debug information.
func (job *Job) symbols(f *kelf.File) (info pack.Info, symbols []pack.Symbol, err error) {
	from := f
	if job.Loaded != "" && (job.CheckLoaded || !hasCode(f)) {
		loaded, err := kelf.Open(job.Loaded)
		if err != nil {
			return info, nil, err
		}
		defer func() { err = errors.Join(err, loaded.Close()) }()
		if got, want := f.Info().BuildID, loaded.Info().BuildID; got != want {
			return info, nil, fmt.Errorf("%s: %w, %s, than %s, %s: install the debug package of the same version",
				job.Debug, ErrOtherBuild, got, job.Loaded, want)
		}
		f.AddLoaded(loaded)
		if !hasCode(f) {
			from = loaded
		}
	}
	if info, symbols, err = from.Symbols(); err != nil {
		return info, nil, fmt.Errorf("%s: %w", from.Name(), err)
	}
	switch {
	case job.BuildID != "" && info.BuildID != job.BuildID:
		return info, nil, fmt.Errorf("%s: %w, %s, than %s, which is wanted",
			job.Debug, ErrOtherBuild, info.BuildID, job.BuildID)
	case info.Release == "":
		info.Release = job.Release
	case job.Release != "" && info.Release != job.Release:
		return info, nil, fmt.Errorf("%s: %w: of release %s, not %s", job.Debug, ErrOtherBuild, info.Release, job.Release)
	}
	return info, symbols, nil
}

// hasCode reports whether a file has more than debug information.
func hasCode(f *kelf.File) bool {
	return slices.ContainsFunc(f.ELF().Sections, func(s *elf.Section) bool {
		return s.Flags&elf.SHF_EXECINSTR != 0 && s.Type != elf.SHT_NOBITS && s.Size > 0
	})
}

// Files returns the jobs for ELF files.
func Files(names []string) (jobs []Job) {
	for _, name := range names {
		jobs = append(jobs, Job{Debug: filepath.Clean(name)})
	}
	return jobs
}
