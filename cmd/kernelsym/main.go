// Command kernelsym is the operator's tool: it looks addresses of this machine's
// kernel up, watches its code come and go, and shows the profiles that a collector wrote to a file.
package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if newCommand().ExecuteContext(ctx) != nil { // which has printed the error
		os.Exit(1) //nolint:gocritic // stop only restores the signal
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "kernelsym",
		Short: "Names for kernel code: look addresses up, watch code come and go, look at profiles",
		Long: "Names for kernel code.\n\n" +
			"It looks addresses of this machine's kernel up, with the code of the OpenTelemetry\n" +
			"Collector processor \"kernelsym\", prints what comes and goes, and shows profiles that a collector wrote to a file.",
		SilenceUsage: true,
	}
	root.AddCommand(newLookup(), newWatch(), newTop(), newView())
	return root
}
