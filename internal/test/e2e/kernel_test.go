// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/test/kerneltest"
)

// A kernel describes the running kernel. It is read without the code under test.
type kernel struct {
	*kerneltest.Symbols
	base    uint64
	buildID string

	function, next function // no byte lies between them
	padded         function // padding lies before it
	aliased        function // it has several names
}

type function struct {
	name       string // as the kernel prints it
	start, end uint64
}

// readKernel picks functions of the running kernel. It skips the test if the kernel does not show
// them.
func readKernel(t *testing.T) *kernel {
	t.Helper()
	kerneltest.NeedAddresses(t)
	k := &kernel{Symbols: kerneltest.ReadSymbols(t), buildID: kernelBuildID(t)}
	k.base = k.Stext
	for addr, names := range k.Names {
		if slices.Contains(names, "_text") {
			k.base = min(k.base, addr)
		}
	}
	for addr := k.Stext; addr < k.Etext; addr = k.After(addr) {
		next := k.After(addr)
		switch {
		case k.function.name == "" && k.isPlain(addr) && k.isPlain(next) && next-addr >= 16:
			k.function, k.next = k.at(addr), k.at(next)
		case k.padded.name == "" && strings.HasPrefix(k.Names[addr][0], "__pfx_") && next-addr >= 8 && k.isPlain(next):
			k.padded = k.at(next)
		}
		if k.Names[addr][0] == "__do_sys_getpid" && len(k.Names[addr]) > 1 {
			k.aliased = k.at(addr)
		}
	}
	require.NotEmpty(t, k.function.name)
	return k
}

func (k *kernel) at(start uint64) function {
	return function{k.Names[start][0], start, k.After(start)}
}

// isPlain reports whether a function with one simple name begins at an address.
func (k *kernel) isPlain(addr uint64) bool {
	names := k.Names[addr]
	return len(names) == 1 && !strings.ContainsAny(names[0], ".$") && !strings.Contains(names[0], "__") &&
		!strings.HasPrefix(names[0], "_") && !strings.HasSuffix(names[0], "_start") && !strings.HasSuffix(names[0], "_end")
}

// relative returns the mapping of relative addresses.
func (k *kernel) relative() *mapping {
	return &mapping{File: "vmlinux", BuildID: k.buildID, FileID: fileID(k.buildID)}
}

// absolute returns the mapping of absolute addresses.
func (k *kernel) absolute() *mapping {
	return &mapping{
		File: "vmlinux", Start: k.base, Limit: k.Address["_einittext"],
		BuildID: k.buildID, FileID: fileID(fmt.Sprintf("%s@%x", k.buildID, k.base)),
	}
}

func fileID(buildID string) string {
	h := fnv.New128a()
	_, _ = h.Write([]byte(buildID))
	return hex.EncodeToString(h.Sum(nil))
}

// kernelBuildID reads the note of type NT_GNU_BUILD_ID of the running kernel.
func kernelBuildID(t *testing.T) string {
	t.Helper()
	notes, err := os.ReadFile("/sys/kernel/notes")
	if err != nil {
		t.Skipf("no build id of the kernel (%v): file IDs are not tested", err)
	}
	pad := func(n uint32) uint32 { return (n + 3) &^ 3 }
	for len(notes) >= 12 {
		name, desc := binary.NativeEndian.Uint32(notes), binary.NativeEndian.Uint32(notes[4:])
		typ := elf.NType(binary.NativeEndian.Uint32(notes[8:]))
		at := 12 + pad(name)
		if string(notes[12:12+name]) == "GNU\x00" && typ == 3 {
			return hex.EncodeToString(notes[at : at+desc])
		}
		notes = notes[at+pad(desc):]
	}
	t.Fatal("no build id in /sys/kernel/notes")
	return ""
}
