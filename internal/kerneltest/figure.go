package kerneltest

import "fmt"

// Figure prints a measure that a test took, as "bench ...". The first process of
// a virtual machine passes it on also if the test succeeds and is not verbose.
func Figure(format string, args ...any) {
	fmt.Println("bench " + fmt.Sprintf(format, args...))
}

// What a test prints after one of these is compared between the boots of a kernel, if there
// are several (see the flag -boots of internal/kerneltest/vm).
const (
	SameInEachBoot  = "bench same in each boot: "
	OtherInEachBoot = "bench other in each boot: "
)
