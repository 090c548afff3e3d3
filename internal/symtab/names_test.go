// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestContract_3_4_NameForPeople(t *testing.T) {
	for symbol, want := range map[string]string{
		"schedule":                               "schedule",
		"do_idle.isra.0":                         "do_idle.isra.0",
		"f.constprop.0.cold":                     "f.constprop.0.cold",
		"f.part.0":                               "f.part.0",
		"f.llvm.1234567890":                      "f.llvm.1234567890",
		"_R":                                     "_R",
		"_Rx":                                    "_Rx", // begins like a Rust name, but is not one
		"_ZN":                                    "_ZN",
		"_Znot_a_mangled_name":                   "_Znot_a_mangled_name",
		"_RNvNtC4core3fmt5write":                 "core::fmt::write",
		"_RNvNtC4core3fmt5write.llvm.42":         "core::fmt::write.llvm.42",
		"_RNvNtC4core3fmt5write.cold":            "core::fmt::write.cold",
		"_ZN4core3fmt5write17h0123456789abcdefE": "core::fmt::write",
		"_ZN4core3fmt5write17h0123456789abcdefE.llvm.42":       "core::fmt::write.llvm.42",
		"_ZN9$LT$a$GT$3fmt17h0123456789abcdefE":                "<a>::fmt",
		"_RNvXs_NtNtC6kernel5alloc4kboxINtB4_3BoxlE4drop.cold": "_RNvXs_NtNtC6kernel5alloc4kboxINtB4_3BoxlE4drop.cold",
	} {
		m := build(t, kernelInfo(0x10), line{text, 'T', symbol})
		name := m.Name(m.Symbol(0))
		assert.Equal(t, want, name.Name)
		assert.Equal(t, symbol, name.System)
	}
}

func TestDemangledNameIsBounded(t *testing.T) {
	// Back references that double the output 40 times over.
	symbol := "_RNvC1aI" + strings.Repeat("TB7_B7_", 40) + "E"
	assert.LessOrEqual(t, len(demangled(symbol)), 1<<maxDemangled+len(symbol))
}

func TestNameIsShared(t *testing.T) {
	m := build(t, kernelInfo(0x10), line{text, 'T', "schedule"})
	first := m.Name(m.Symbol(0))
	assert.Same(t, first, m.Name(m.Symbol(0)))
}

func TestNameCacheIsBounded(t *testing.T) {
	for symbols, want := range map[int]int{0: 4, 1: 4, 32: 4, 64: 8, 1000: 128, 60_000: 8192, 1 << 24: maxCached} {
		var c nameCache
		c.init(symbols)
		assert.Len(t, c.slots, want, "%d symbols", symbols)
	}
}

// TestNamesOfMessagesAreKept verifies that the cache keeps most of 6,000 names out of 60,000 that
// are read again and again, in order, as messages do.
func TestNamesOfMessagesAreKept(t *testing.T) {
	const symbols, asked = 60_000, 6_000
	var c nameCache
	c.init(symbols)
	numbers := rand.New(rand.NewPCG(1, 2)).Perm(symbols)[:asked]
	slices.Sort(numbers)
	found := 0
	for range 5 {
		found = 0
		for _, i := range numbers {
			if c.get(uint32(i)) != nil {
				found++
			} else {
				c.put(&Name{number: uint32(i)})
			}
		}
	}
	assert.Greater(t, found, asked*4/5)
}

// TestNamesOfManyReaders verifies that names are right if several goroutines read more symbols than
// the cache has room for.
func TestNamesOfManyReaders(t *testing.T) {
	const n = 1000
	var lines []line
	for i := range n {
		lines = append(lines, line{text + uint64(i), 'T', fmt.Sprintf("function_%d", i)})
	}
	m := build(t, kernelInfo(n), lines...)
	var readers sync.WaitGroup
	for r := range 8 {
		readers.Go(func() {
			for i := range 10 * n {
				number := (i * (2*r + 1)) % n
				if got := m.Name(m.Symbol(number)).System; got != lines[number].name {
					t.Errorf("symbol %d: %s", number, got)
					return
				}
			}
		})
	}
	readers.Wait()
}

func TestNameOfCachedSymbolDoesNotAllocate(t *testing.T) {
	m := build(t, kernelInfo(0x10), line{text, 'T', "schedule"}, line{text + 8, 'T', "__schedule"})
	require.Equal(t, "__schedule", m.Name(m.Symbol(1)).System)
	assert.Zero(t, testing.AllocsPerRun(100, func() { m.Name(m.Symbol(1)) }))
}
