// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// errNotBooted says that the machine ended, or did nothing, before its first
// process ran.
var errNotBooted = errors.New("the machine did not boot")

var errTests = errors.New("tests failed")

// bootTime is how long a machine may take until its first process runs: a
// multiple of what it takes on a busy one.
const bootTime = 2 * time.Minute

// boot starts a machine and prints what the tests in it print to a writer. Its
// exit status says nothing: it is 0 also after a panic.
func boot(ctx context.Context, k *kernel, initrd string, o options, to io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, bootTime+o.timeout)
	defer cancel()
	console := initrd + ".console"
	cmd := exec.CommandContext(ctx, k.qemu, append([]string{
		// With thread=multi, newer kernels panic now and then.
		"-accel", "tcg,thread=single", "-smp", "2", "-m", "2G",
		"-nodefaults", "-display", "none", "-no-reboot",
		"-kernel", k.image, "-initrd", initrd,
		"-append", "console=" + k.console + " panic=-1 quiet loglevel=4 rdinit=/init KERNELSYM_PORT=" + k.port + // its environment
			" " + o.append,
		"-serial", "file:" + console, "-chardev", "stdio,id=port",
	}, k.machine...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	watchdog := time.AfterFunc(bootTime, cancel)
	booted := false
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	done, ok := follow(lines, to, func() { booted = true; watchdog.Stop() })
	watchdog.Stop()
	_ = cmd.Process.Kill() // when it is done it only has to be switched off
	_ = cmd.Wait()
	switch {
	case ok:
		return nil
	case done:
		return errTests
	case !booted:
		err = errNotBooted
	default:
		err = errors.New("the machine ended before the tests did")
	}
	log, _ := os.ReadFile(console)
	return fmt.Errorf("%w; its console:\n%s", err, log)
}
