// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"encoding/base64"
	"fmt"
)

// Figure prints what a test has measured, as "bench ...". The first process of a virtual machine
// passes it on even if the test succeeds and is not verbose.
func Figure(format string, args ...any) {
	fmt.Println("bench " + fmt.Sprintf(format, args...))
}

// If a kernel is booted several times, text that a test prints after one of these is compared
// between the boots (see the flag -boots of internal/test/kerneltest/vm).
const (
	SameInEachBoot  = "bench same in each boot: "
	OtherInEachBoot = "bench other in each boot: "
)

// BootsEnv is the environment variable with which a virtual machine learns how often it is booted.
const BootsEnv = "KERNELSYM_VM_BOOTS"

// FileOut precedes a part of a file that a test hands out of a virtual machine: the file's name,
// and bytes in base 64 (see the flag -out of internal/test/kerneltest/vm).
const FileOut = "bench file: "

// HandOut hands a file out of the virtual machine that the test runs in.
func HandOut(name string, data []byte) {
	const part = 48 << 10
	for len(data) > 0 {
		n := min(part, len(data))
		fmt.Println(FileOut + name + " " + base64.StdEncoding.EncodeToString(data[:n]))
		data = data[n:]
	}
}

// OutEnv is the environment variable that names the directory of the files that TestPackStacks
// handed out.
const OutEnv = "KERNELSYM_VM_OUT"
