// Command kernelsym is the operator's tool: it checks this machine, looks addresses
// of its kernel up, watches its code come and go, and shows the profiles that a
// collector wrote to a file.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := newCommand().ExecuteContext(ctx) // which has printed the error
	var status statusError
	switch {
	case errors.As(err, &status):
		os.Exit(int(status)) //nolint:gocritic // stop only restores the signal
	case err != nil:
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "kernelsym",
		Short: "Names for kernel code: check a machine, look addresses up, watch code come and go, look at profiles",
		Long: "Names for kernel code.\n\n" +
			"It checks this machine, looks addresses of its kernel up and prints what code comes and\n" +
			"goes, with the code of the OpenTelemetry Collector processor \"kernelsym\", and shows\n" +
			"profiles that a collector wrote to a file.",
		SilenceUsage: true,
	}
	root.AddCommand(newDoctor(), newLookup(), newWatch(), newTop(), newView())
	return root
}
