package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/packer"
)

// packCommand is the command "pack" with its flags.
type packCommand struct {
	output, info string
	symbols      bool
	from         packSource
}

// packSource says what packs are made of.
type packSource struct {
	release, root       string
	debuginfod, running bool
	buildIDs            []string
	procfs, sysfs       string
}

func newPack() *cobra.Command {
	var p packCommand
	cmd := &cobra.Command{
		Use:   "pack [VMLINUX] [MODULE.ko...]",
		Short: "Make packs: inlined functions, source lines and symbols for the processor",
		Long: "Make a pack, <build id>.kspack, of each ELF file of a kernel: the inlined functions and source\n" +
			"lines of its debug information, and its symbols. Any user can do that, on any machine. With\n" +
			"--release, --debuginfod or --running it finds the files, or the symbols, itself.\n\n" +
			"A file that cannot be read is named, and the others go on; the exit status is then 1.",
		Example: "  kernelsym pack /usr/lib/debug/boot/vmlinux-6.12.0 -o packs\n" +
			"  kernelsym pack --release \"$(uname -r)\" -o packs     # with the kernel's debug package\n" +
			"  kernelsym pack --debuginfod -o packs                # servers: DEBUGINFOD_URLS\n" +
			"  sudo kernelsym pack --running -o packs              # symbols only, without any package\n" +
			"  kernelsym pack --info packs/7f76f39faf07f34c.kspack",
		RunE: p.run,
	}
	flags := cmd.Flags()
	flags.StringVarP(&p.output, "output", "o", "", "directory for the packs, created if it is not there")
	flags.StringVar(&p.from.release, "release", "", "kernel release whose installed files are packed, with all modules")
	flags.StringVar(&p.from.root, "root", "/", "directory below which --release looks")
	flags.BoolVar(&p.from.debuginfod, "debuginfod", false, "fetch debug information from the servers in DEBUGINFOD_URLS")
	flags.StringSliceVar(&p.from.buildIDs, "build-id", nil,
		"builds that --debuginfod fetches (default: the running kernel and its modules)")
	flags.BoolVar(&p.from.running, "running", false, "pack the symbols of the kernel that runs here; needs CAP_SYSLOG")
	flags.BoolVar(&p.symbols, "symbols", false, "pack symbols only")
	flags.StringVar(&p.info, "info", "", "print what a pack holds")
	flags.StringVar(&p.from.procfs, "procfs", "/proc", "where the host's /proc is mounted")
	flags.StringVar(&p.from.sysfs, "sysfs", "/sys", "where the host's /sys is mounted")
	return cmd
}

// check returns what is wrong with the command line.
func (p *packCommand) check(args []string) error {
	ways := 0
	for _, given := range []bool{len(args) > 0, p.from.release != "", p.from.debuginfod, p.from.running, p.info != ""} {
		if given {
			ways++
		}
	}
	switch {
	case ways != 1:
		return errors.New("it takes one of: files, --release, --debuginfod, --running, --info")
	case p.info == "" && p.output == "":
		return errors.New("--output is missing: the directory for the packs")
	case len(p.from.buildIDs) > 0 && !p.from.debuginfod:
		return errors.New("--build-id is for --debuginfod")
	}
	return nil
}

func (p *packCommand) run(cmd *cobra.Command, args []string) error {
	if err := p.check(args); err != nil {
		return usage(cmd, err)
	}
	if p.info != "" {
		return printPack(cmd.OutOrStdout(), p.info)
	}
	o := packer.Options{Dir: p.output, SymbolsOnly: p.symbols}
	finish := func() error { return nil }
	if term.IsTerminal(int(os.Stderr.Fd())) {
		bar := progressbar.DefaultBytes(1, "packing")
		o.Progress, finish = &packProgress{bar: bar}, bar.Clear
	}
	result, err := p.pack(cmd.Context(), args, o)
	_ = finish()
	p.report(cmd, result)
	return err
}

// pack makes the packs that the command line asks for.
func (p *packCommand) pack(ctx context.Context, args []string, o packer.Options) (packer.Result, error) {
	switch {
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

// report says what was made.
func (p *packCommand) report(cmd *cobra.Command, r packer.Result) {
	if r.Packs == 0 && r.WithoutCode == 0 {
		return
	}
	var details []string
	if r.WithoutLines > 0 {
		details = append(details, fmt.Sprintf("%d with symbols only, as there is no debug information", r.WithoutLines))
	}
	if r.WithoutCode > 0 {
		details = append(details, fmt.Sprintf("modules without code: %d", r.WithoutCode))
	}
	packs := "1 pack"
	if r.Packs != 1 {
		packs = fmt.Sprintf("%d packs", r.Packs)
	}
	text := fmt.Sprintf("%s, %d kB, in %s", packs, (r.Bytes+999)/1000, p.output)
	if len(details) > 0 {
		text += " (" + strings.Join(details, "; ") + ")"
	}
	fmt.Fprintln(cmd.OutOrStdout(), text)
}

// packProgress shows progress in a bar.
type packProgress struct{ bar *progressbar.ProgressBar }

// Grow raises the number of bytes that there are.
func (p *packProgress) Grow(bytes int64) { p.bar.AddMax64(bytes) }

// Add raises the number of bytes that are done.
func (p *packProgress) Add(bytes int64) { _ = p.bar.Add64(bytes) }
