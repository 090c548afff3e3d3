// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"encoding/base64"
	"fmt"
)

// Figure prints a measure that a test took, as "bench ...". The first process of
// a virtual machine passes it on also if the test succeeds and is not verbose.
func Figure(format string, args ...any) {
	fmt.Println("bench " + fmt.Sprintf(format, args...))
}

// What a test prints after one of these is compared between the boots of a kernel, if there
// are several (see the flag -boots of internal/test/kerneltest/vm).
const (
	SameInEachBoot  = "bench same in each boot: "
	OtherInEachBoot = "bench other in each boot: "
)

// BootsEnv is a variable of the environment in a virtual machine: how often it is booted.
const BootsEnv = "KERNELSYM_VM_BOOTS"

// FileOut comes before a part of a file that a test hands out of a virtual machine: its name
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
