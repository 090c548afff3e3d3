// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packer"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/plural"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
)

// packCommand is the command "pack" with its flags.
type packCommand struct {
	dir, info, output string
	symbols           bool
	from              packSource
}

// packSource describes where the contents of packs come from.
type packSource struct {
	release, root             string
	debuginfod, running, boot bool
	buildIDs                  []string
	procfs, sysfs             string
}

func newPack() *cobra.Command {
	var p packCommand
	cmd := &cobra.Command{
		Use:   "pack [VMLINUX] [MODULE.ko...] [IMAGE...]",
		Short: "Make packs of inlined functions, source lines and symbols",
		Long: "Make a pack, BUILD_ID.kspack, of each ELF file of a kernel. A pack holds the inlined functions\n" +
			"and source lines of the debug information, and the symbols. Any user can make packs, on any\n" +
			"machine. --release, --debuginfod and --running find the files or symbols themselves.\n\n" +
			"With --boot, each IMAGE is a file from which a machine boots: bzImage, arm64 Image, EFI zboot, unified\n" +
			"kernel image or ELF, also compressed with gzip, xz, zstd or lz4. - is standard input. Without an\n" +
			"IMAGE, it is that of the running kernel. The pack has the symbols of the core kernel, without lines, and\n" +
			"needs no debug package.\n\n" +
			"If a file cannot be read, an error names it, the other files are packed, and the exit status\n" +
			"is 1.",
		Example: "  kernelsym pack /usr/lib/debug/boot/vmlinux-6.12.0 -d packs\n" +
			"  kernelsym pack --release \"$(uname -r)\" -d packs     # with the kernel's debug package\n" +
			"  kernelsym pack --debuginfod -d packs                # servers: DEBUGINFOD_URLS\n" +
			"  kernelsym pack --boot /boot/vmlinuz-6.12.0 -d packs # symbols only, without a debug package\n" +
			"  sudo kernelsym pack --running -d packs              # symbols only, without any file\n" +
			"  kernelsym pack --info packs/7f76f39faf07f34cfa9fadd801e131bfa8cb6dc3.kspack",
		RunE: p.run,
	}
	flags := cmd.Flags()
	flags.StringVarP(&p.dir, "dir", "d", "", "directory for the packs, created if necessary")
	flags.StringVar(&p.from.release, "release", "", "pack the installed files of a kernel release, with all modules")
	flags.StringVar(&p.from.root, "root", "/", "directory in which --release and --boot look for files")
	flags.BoolVar(&p.from.debuginfod, "debuginfod", false, "fetch debug information from the servers in DEBUGINFOD_URLS")
	flags.StringSliceVar(&p.from.buildIDs, "build-id", nil,
		"build IDs that --debuginfod fetches (default: those of the running kernel and its modules)")
	flags.BoolVar(&p.from.running, "running", false, "pack the symbols of the running kernel; needs CAP_SYSLOG")
	flags.BoolVar(&p.from.boot, "boot", false, "pack the symbols in the files from which kernels boot")
	flags.BoolVar(&p.symbols, "symbols", false, "pack symbols only")
	flags.StringVar(&p.info, "info", "", "print what a pack contains")
	_, _ = cmd.MarkFlagDirname("dir"), cmd.MarkFlagDirname("root")
	_ = cmd.MarkFlagFilename("info", packExtension)
	machineFlags(cmd, &p.from.procfs, &p.from.sysfs)
	outputFlag(cmd, &p.output, objectPerLine)
	return cmd
}

// check validates the command line.
func (p *packCommand) check(args []string) error {
	ways := 0
	for _, given := range []bool{
		len(args) > 0 && !p.from.boot, p.from.release != "", p.from.debuginfod, p.from.running, p.from.boot, p.info != "",
	} {
		if given {
			ways++
		}
	}
	switch {
	case ways != 1:
		return errors.New("give exactly one of: files, --release, --debuginfod, --running, --boot, --info")
	case p.info == "" && p.dir == "":
		return errors.New("--dir is missing: name a directory for the packs")
	case len(p.from.buildIDs) > 0 && !p.from.debuginfod:
		return errors.New("--build-id needs --debuginfod")
	}
	return nil
}

func (p *packCommand) run(cmd *cobra.Command, args []string) error {
	if err := p.check(args); err != nil {
		return usage(cmd, err)
	}
	if p.info != "" {
		return printPack(stdout(cmd), p.info, p.output)
	}
	o := packer.Options{Dir: p.dir, SymbolsOnly: p.symbols}
	finish := func() error { return nil }
	if term.IsTerminal(int(os.Stderr.Fd())) {
		bar := progressbar.DefaultBytes(1, "packing")
		o.Progress, finish = &packProgress{bar: bar}, bar.Clear
	}
	result, err := p.pack(cmd, args, o)
	_ = finish()
	return errors.Join(err, p.report(stdout(cmd), result))
}

// pack makes the packs that the command line asks for.
func (p *packCommand) pack(cmd *cobra.Command, args []string, o packer.Options) (packer.Result, error) {
	ctx := cmd.Context()
	switch {
	case p.from.boot:
		images, err := p.images(args)
		if err != nil {
			return packer.Result{}, err
		}
		var in io.Reader
		if slices.Contains(args, "-") {
			in = stdin(cmd, "a boot image")
		}
		return packer.Boot(ctx, images, in, o)
	case p.from.running:
		return packer.Running(ctx, p.from.procfs, p.from.sysfs, o)
	case p.from.debuginfod:
		urls, err := packer.ParseURLs(os.Getenv("DEBUGINFOD_URLS"))
		if err != nil {
			return packer.Result{}, err
		}
		builds, err := p.builds()
		if err != nil {
			return packer.Result{}, err
		}
		servers := packer.Debuginfod{URLs: urls, Client: http.DefaultClient}
		return servers.Run(ctx, builds, o)
	case p.from.release != "":
		jobs, missing := packer.Release(p.from.root, p.from.release)
		if len(jobs) == 0 {
			return packer.Result{}, missing
		}
		result, err := packer.Run(ctx, jobs, o)
		return result, errors.Join(missing, err)
	}
	return packer.Run(ctx, packer.Files(args), o)
}

// images returns the boot images with the given names, or that of the running kernel.
func (p *packCommand) images(names []string) (images []packer.BootImage, err error) {
	if len(names) == 0 {
		running, err := packer.RunningImage(p.from.root, p.from.procfs, p.from.sysfs)
		return []packer.BootImage{running}, err
	}
	for _, name := range names {
		images = append(images, packer.BootImage{Name: name})
	}
	return images, nil
}

// builds returns the builds to ask servers for.
func (p *packCommand) builds() (builds []packer.Build, err error) {
	if len(p.from.buildIDs) == 0 {
		return packer.RunningBuilds(p.from.sysfs)
	}
	for _, id := range p.from.buildIDs {
		builds = append(builds, packer.Build{ID: id})
	}
	return builds, nil
}

// packReport is the result in JSON.
type packReport struct {
	Directory   string `json:"directory"`
	Packs       int    `json:"packs"`
	Bytes       int64  `json:"bytes"`
	SymbolsOnly int    `json:"symbols_only"` // packs without functions and lines
	WithoutCode int    `json:"without_code"` // modules that need no pack
	Kept        int    `json:"kept"`         // existing packs with lines, which symbols alone do not replace
}

// wantsSymbols reports whether symbols alone were asked for.
func (p *packCommand) wantsSymbols() bool { return p.symbols || p.from.running || p.from.boot }

// report prints the result.
func (p *packCommand) report(out *printable.Printer, r packer.Result) error {
	if p.output == outputJSON {
		return writeJSON(out, packReport{p.dir, r.Packs, r.Bytes, r.WithoutLines, r.WithoutCode, r.Kept})
	}
	if r.Packs+r.WithoutCode+r.Kept == 0 {
		return nil
	}
	var details []string
	if r.WithoutLines > 0 && !p.wantsSymbols() {
		details = append(details, fmt.Sprintf("%d with symbols only, since they have no debug information", r.WithoutLines))
	}
	if r.WithoutCode > 0 {
		details = append(details, fmt.Sprintf("modules without code: %d", r.WithoutCode))
	}
	if r.Kept > 0 {
		details = append(details, plural.Of(r.Kept, "pack")+" with lines kept: symbols alone do not replace them")
	}
	text := fmt.Sprintf("%s, %d kB, in %s", plural.Of(r.Packs, "pack"), (r.Bytes+999)/1000, p.dir)
	if len(details) > 0 {
		text += " (" + strings.Join(details, "; ") + ")"
	}
	return out.Printf("%s\n", text)
}

// packProgress shows progress in a bar.
type packProgress struct{ bar *progressbar.ProgressBar }

// Grow adds to the total number of bytes.
func (p *packProgress) Grow(bytes int64) { p.bar.AddMax64(bytes) }

// Add adds to the number of bytes processed.
func (p *packProgress) Add(bytes int64) { _ = p.bar.Add64(bytes) }
