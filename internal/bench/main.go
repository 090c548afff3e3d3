// Command bench measures what this project promises of its speed and memory, on
// the running kernel's own symbols. It prints a line "bench NAME VALUE" for each.
//
// A value is a ratio of medians, of the code measured and of a reference, taken in
// turn in this one run; so it says the same on a fast machine, a slow one and a
// busy one. The reference is what the work cannot do without, where there is
// something like that. Those that are bytes or counts have that in
// their name.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/kernelsym/kernelsym/internal/symtab"
)

func main() {
	rounds := flag.Int("rounds", 31, "number of measurements of each kind, of which the median counts")
	child := flag.Bool("sources", false, "run the sources until standard input ends: for the measures of wakeups")
	flag.Parse()
	if *child {
		runSources(os.Stdin)
		return
	}
	if err := run(*rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(rounds int) error {
	list, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		return err
	}
	core, err := benchKallsyms(list, rounds)
	if err != nil {
		return err
	}
	if err := benchModules(rounds); err != nil {
		return err
	}
	snapshot := symtab.NewSnapshot(symtab.NewTable(core))
	benchLookup(core, snapshot, rounds)
	benchFollowing()
	benchTable(rounds)
	return errors.Join(benchListing(rounds), benchDelay(), benchWakeups(), benchRewrite(core, rounds))
}

// report prints a result.
func report(name string, value float64) {
	fmt.Printf("bench %s %.3f\n", name, value)
}
