// SPDX-License-Identifier: Apache-2.0

package main

// A platform is a kind of machine that qemu can emulate.
type platform struct {
	arch    string // as Go and Debian call it
	qemu    string // program
	pkg     string // Debian's package with the program
	machine []string
	console string // the kernel's name for the port that it prints to
	port    string // another port, for the first process
	options string // for the kernel's command line
}

var platforms = map[string]*platform{
	"amd64": {
		arch: "amd64", qemu: "qemu-system-x86_64", pkg: "qemu-system-x86",
		machine: []string{"-cpu", "max", "-serial", "chardev:port"},
		console: "ttyS0", port: "/dev/ttyS1",
		// The kernel would give up if a busy machine has no time for the timer's interrupts.
		options: "no_timer_check",
	},
	"arm64": {
		arch: "arm64", qemu: "qemu-system-aarch64", pkg: "qemu-system-arm",
		// Signing pointers as real machines do would take most of the time.
		machine: []string{"-machine", "virt", "-cpu", "max,pauth-impdef=on", "-device", "pci-serial,chardev=port"},
		console: "ttyAMA0", port: "/dev/ttyS0",
	},
}
