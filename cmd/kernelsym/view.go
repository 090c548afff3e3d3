package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/google/pprof/driver"
	"github.com/google/pprof/profile"
	"github.com/spf13/cobra"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/profilefile"
)

var errNoSamples = errors.New("there are no samples in it")

func newView() *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:   "view FILE...",
		Short: "Serve the flame graph of profiles in a file to a browser",
		Long: "Serve the web interface of pprof, with the flame graph of all samples. FILE is what the file\n" +
			"exporter of a collector wrote, in any of its formats. It ends with an interrupt (Ctrl-C).",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			merger := profilefile.NewMerger()
			if err := readFiles(cmd, args, merger.Add); err != nil {
				return err
			}
			if len(merger.Profile().Sample) == 0 {
				return fmt.Errorf("%s: %w", args[0], errNoSamples)
			}
			if n := merger.Skipped(); n > 0 {
				cmd.PrintErrf("Left out %d profiles whose values are of another type than those of the first.\n", n)
			}
			return view(cmd, merger.Profile(), address)
		},
	}
	cmd.Flags().StringVar(&address, "http", "localhost:8080", "address to serve at")
	return cmd
}

// view serves pprof's web interface of a profile. pprof gets it as a file: of
// what comes from elsewhere it would leave a copy in the home directory.
func view(cmd *cobra.Command, p *profile.Profile, address string) error {
	f, err := os.CreateTemp("", "kernelsym-*.pb.gz")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	if err := errors.Join(p.Write(f), f.Close()); err != nil {
		return err
	}
	return driver.PProf(&driver.Options{
		Flagset:    newFlags("-http="+address, "-no_browser", "-symbolize=none", f.Name()),
		UI:         ui{cmd.ErrOrStderr()},
		HTTPServer: func(a *driver.HTTPServerArgs) error { return serve(cmd, a) },
	})
}

// serve serves pprof's pages below /ui until it is interrupted.
func serve(cmd *cobra.Command, args *driver.HTTPServerArgs) error {
	ctx := cmd.Context()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", args.Hostport)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is in use: choose another address with --http", args.Hostport)
	}
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	for path, handler := range args.Handlers {
		mux.Handle("/ui"+path, http.StripPrefix("/ui", handler))
	}
	mux.Handle("/", http.RedirectHandler("/ui/flamegraph", http.StatusTemporaryRedirect))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	cmd.PrintErrf("Flame graph: http://%s/ui/flamegraph (Ctrl-C ends it)\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// flags gives pprof its command line.
type flags struct {
	*flag.FlagSet
	args  []string
	extra []string
}

func newFlags(args ...string) *flags {
	return &flags{FlagSet: flag.NewFlagSet("pprof", flag.ContinueOnError), args: args}
}

func (f *flags) StringList(name, def, usage string) *[]*string {
	return &[]*string{f.String(name, def, usage)}
}

func (f *flags) ExtraUsage() string { return strings.Join(f.extra, "\n") }

func (f *flags) AddExtraUsage(eu string) { f.extra = append(f.extra, eu) }

func (f *flags) Parse(usage func()) []string {
	f.Usage = usage
	if f.FlagSet.Parse(f.args) != nil {
		return nil
	}
	return f.Args()
}

// ui passes on the errors that pprof has to tell.
type ui struct{ w io.Writer }

func (u ui) PrintErr(args ...any)              { fmt.Fprintln(u.w, args...) }
func (ui) Print(...any)                        {} // the address, which serve prints
func (ui) ReadLine(string) (string, error)     { return "", io.EOF }
func (ui) IsTerminal() bool                    { return false }
func (ui) WantBrowser() bool                   { return false }
func (ui) SetAutoComplete(func(string) string) {}
