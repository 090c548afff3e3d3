package kerneltest

import "fmt"

// Figure prints a measure that a test took, as "bench ...". The first process of
// a virtual machine passes it on also if the test succeeds and is not verbose.
func Figure(format string, args ...any) {
	fmt.Println("bench " + fmt.Sprintf(format, args...))
}
