// SPDX-License-Identifier: Apache-2.0

package main

// A platform is a kind of machine that qemu can be.
type platform struct {
	arch    string // of Go, and of Debian
	qemu    string // program
	pkg     string // of Debian, that has it
	machine []string
	console string // where the kernel prints, as it calls that
	port    string // where the first process prints, another one
	options string // for the kernel's command line
}

var platforms = map[string]*platform{
	"amd64": {
		arch: "amd64", qemu: "qemu-system-x86_64", pkg: "qemu-system-x86",
		machine: []string{"-cpu", "max", "-serial", "chardev:port"},
		console: "ttyS0", port: "/dev/ttyS1",
		// It gives up where a busy machine has no time for the timer's interrupts.
		options: "no_timer_check",
	},
	"arm64": {
		arch: "arm64", qemu: "qemu-system-aarch64", pkg: "qemu-system-arm",
		// Signing pointers as real machines do takes most of the time.
		machine: []string{"-machine", "virt", "-cpu", "max,pauth-impdef=on", "-device", "pci-serial,chardev=port"},
		console: "ttyAMA0", port: "/dev/ttyS0",
	},
}
