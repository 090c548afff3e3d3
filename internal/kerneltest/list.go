package kerneltest

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
)

// Names reads the running kernel's symbol list without the code under test, and
// returns all names of type t, T, w or W at each address of core text.
func Names(t testing.TB) (names map[uint64][]string, stext, etext uint64) {
	t.Helper()
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	names = make(map[uint64][]string)
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		var addr uint64
		var typ, name string
		if _, err := fmt.Sscanf(scanner.Text(), "%x %s %s", &addr, &typ, &name); err != nil {
			t.Fatalf("%v: %q", err, scanner.Text())
		}
		switch name {
		case "_stext":
			stext = addr
		case "_etext":
			etext = addr
		}
		switch typ {
		case "t", "T", "w", "W":
			names[addr] = append(names[addr], name)
		}
		if strings.HasSuffix(scanner.Text(), "]") {
			break
		}
	}
	return names, stext, etext
}
