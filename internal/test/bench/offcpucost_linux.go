// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// The loads of benchOffCPUCost, by the number of context switches that they make in a second.
var switchRates = []struct {
	name     string
	switches int
}{{"1k", 1_000}, {"10k", 10_000}, {"100k", 100_000}}

// watchers record each context switch of the machine, with a stack. The first of them records nothing: it is the floor.
var watchers = []struct {
	name string
	args func(tool, collector, dir string) []string
}{
	{"none", func(string, string, string) []string { return nil }},
	{"perf", func(_, _, dir string) []string {
		return []string{"perf", "record", "-q", "-g", "-e", "context-switches", "-c", "1", "-a", "-o", filepath.Join(dir, "perf.data")}
	}},
	{"receiver", func(_, collector, dir string) []string {
		return []string{collector, "--config", filepath.Join(dir, "config.yaml"), "--feature-gates", "service.profilesSupport"}
	}},
	{"top", func(tool, _, _ string) []string {
		return []string{tool, "top", "--off-cpu", "--duration", "1h", "-n", "1"}
	}},
}

// watchedConfig is the configuration of the collector, with its defaults. It writes messages to a file.
const watchedConfig = `receivers: {kernelstack: {off_cpu: {enabled: true}}}
processors: {kernelsym: {}}
exporters: {file: {path: %q}}
service:
  pipelines: {profiles: {receivers: [kernelstack], processors: [kernelsym], exporters: [file]}}
  telemetry: {metrics: {level: none}}
`

// benchOffCPUCost measures what it costs a machine that all its context switches are recorded: by perf, by the receiver in a
// collector, and by `kernelsym top`. They take turns. Others may use the machine, so the least counts.
func benchOffCPUCost(tool, collector string, rounds int) error {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	config := fmt.Sprintf(watchedConfig, filepath.Join(dir, "profiles.json"))
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(config), 0o600); err != nil {
		return err
	}
	for _, rate := range switchRates {
		describeCost(rate.name, rate.switches)
		least := make([]usage, len(watchers))
		err := whileSwitching(rate.switches, func() error {
			for round := range max(1, rounds/6) {
				for i, w := range watchers {
					u, err := watch(w.args(tool, collector, dir))
					if err != nil {
						return fmt.Errorf("%s: %w", w.name, err)
					}
					if round == 0 || u.machine < least[i].machine {
						least[i] = u
					}
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		reportCost(rate.name, least)
	}
	return nil
}

// describeCost adds the measures of a load.
func describeCost(load string, switches int) {
	for _, w := range watchers {
		name := costName(load, w.name)
		what := fmt.Sprintf("%d switches a second, recorder %s: ", switches, w.name)
		goal := float64(noGoal)
		if load == "10k" {
			goal = 1.2
		}
		measures[name+"_machine_percent"] = measure{what + "CPU time of the machine", noGoal, "% of a core"}
		measures[name+"_own_percent"] = measure{what + "CPU time of its process", noGoal, "% of a core"}
		measures[name+"_switches"] = measure{what + "all switches of the machine", noGoal, "a second"}
		measures[name+"_vs_perf"] = measure{what + "CPU time of the machine", goal, "recorder perf"}
	}
}

func costName(load, watcher string) string { return "offcpu_" + load + "_" + watcher }

// reportCost reports what each of the watchers used.
func reportCost(load string, least []usage) {
	for i, w := range watchers {
		name := costName(load, w.name)
		report(name+"_machine_percent", least[i].machine)
		report(name+"_own_percent", least[i].own)
		report(name+"_switches", least[i].switches)
		report(name+"_vs_perf", least[i].machine/least[1].machine)
	}
}

// usage is the load of a machine.
type usage struct {
	machine, own float64 // CPU time of everything, and of one process, in percent of a core
	switches     float64 // a second
}

// watch runs a command, if there is one, and returns the load while it runs. The time that it takes to start does not count.
func watch(args []string) (u usage, err error) {
	var cmd *exec.Cmd
	if len(args) > 0 {
		cmd = exec.CommandContext(context.Background(), args[0], args[1:]...)
		if err := cmd.Start(); err != nil {
			return usage{}, err
		}
		defer func() {
			interrupted := cmd.Process.Signal(os.Interrupt)
			if ended := cmd.Wait(); cmd.ProcessState.ExitCode() > 0 { // or the signal has ended it
				err = errors.Join(err, interrupted, ended)
			}
		}()
	}
	const start, during = 4 * time.Second, 8 * time.Second
	time.Sleep(start)
	before, began, err := timesOf(cmd)
	if err != nil {
		return usage{}, err
	}
	time.Sleep(during)
	after, ended, err := timesOf(cmd)
	took := ended - began
	percent := func(cpu time.Duration) float64 { return 100 * ratio(cpu, took) }
	return usage{
		machine:  percent(time.Duration(runtime.NumCPU())*took - (after.idle - before.idle)),
		own:      percent(after.own - before.own),
		switches: float64(after.switches-before.switches) / took.Seconds(),
	}, err
}

// times are counts since the start of the machine.
type times struct {
	idle, own time.Duration
	switches  int
}

// timesOf reads the counts of the machine and of a command, and the time.
func timesOf(cmd *exec.Cmd) (t times, at time.Duration, err error) {
	at = wall()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t, at, err
	}
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		switch string(fields[0]) {
		case "cpu":
			idle, idleErr := strconv.ParseInt(string(fields[4]), 10, 64)
			waiting, waitErr := strconv.ParseInt(string(fields[5]), 10, 64)
			t.idle, err = time.Duration(idle+waiting)*userTick, errors.Join(err, idleErr, waitErr)
		case "ctxt":
			n, countErr := strconv.Atoi(string(fields[1]))
			t.switches, err = n, errors.Join(err, countErr)
		}
	}
	if cmd != nil {
		own, ownErr := cpuOf(cmd.Process.Pid)
		t.own, err = own, errors.Join(err, ownErr)
	}
	return t, at, err
}

// whileSwitching calls a function while a process of its own runs runSwitches.
func whileSwitching(switches int, work func() error) error {
	load := exec.CommandContext(context.Background(), "/proc/self/exe", "-switches", strconv.Itoa(switches))
	load.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1", "GOGC=off", fmt.Sprintf("GOMAXPROCS=%d", 2*runtime.NumCPU()+1))
	load.Stderr = os.Stderr
	in, err := load.StdinPipe()
	if err != nil {
		return err
	}
	if err := load.Start(); err != nil {
		return err
	}
	return errors.Join(work(), in.Close(), load.Wait())
}

// runSwitches has two threads on each CPU switch to and fro, until in ends. Every few milliseconds they pass a byte to and fro,
// and then the first of them sleeps: two of ten or of fifty switches are those of the idle task. The runtime does not know that
// these threads wait, because it would make switches of its own.
func runSwitches(switches int, in io.Reader) error {
	roundTrips := 4
	pause := time.Second * time.Duration(runtime.NumCPU()*(2*roundTrips+2)) / time.Duration(switches)
	if pause < time.Millisecond { // shorter than it can sleep
		roundTrips, pause = 24, 5*pause
	}
	ended := make(chan error, 1)
	for n := range runtime.NumCPU() {
		var there, back [2]int // the ends of pipes, to read from and to write to
		sleeper, err := unix.EpollCreate1(0)
		if err := errors.Join(err, unix.Pipe(there[:]), unix.Pipe(back[:])); err != nil {
			return err
		}
		if _, err := unix.Write(there[1], []byte{1}); err != nil {
			return err
		}
		again := func(do func(turn int) error) {
			ended <- onCPU(n, func() (err error) {
				for turn := 1; err == nil; turn++ {
					err = do(turn)
				}
				return err
			})
		}
		go again(func(int) error { return move(there[0], back[1]) })
		go again(func(turn int) error {
			if turn%roundTrips == 0 {
				sleep(sleeper, pause)
			}
			return move(back[0], there[1])
		})
	}
	go func() {
		_, err := io.Copy(io.Discard, in)
		ended <- err
	}()
	return <-ended
}

// move moves a byte from one pipe to another. It waits for the byte.
func move(from, to int) error {
	if _, _, errno := unix.RawSyscall6(unix.SYS_SPLICE, uintptr(from), 0, uintptr(to), 0, 1, 0); errno != 0 && errno != unix.EINTR {
		return errno
	}
	return nil
}

// sleep waits for an event of an epoll file that has none, for some milliseconds.
func sleep(file int, pause time.Duration) {
	const nowhere = 1 // where the event would be written
	_, _, _ = unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(file), nowhere, 1, uintptr(pause.Milliseconds()), 0, 0)
}
