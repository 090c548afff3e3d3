// SPDX-License-Identifier: Apache-2.0

package symtab

import (
	"cmp"
	"slices"
	"strings"
)

// line is a line of a kernel's symbol list.
type line struct {
	addr uint64
	typ  byte
	name string
}

// oracle answers lookups the slow and obvious way: it applies rules 3.1 to 3.3 of the contract,
// word by word, to the list itself.
type oracle struct {
	info    TextInfo
	lines   []line
	classes []class // the class of each line
}

func newOracle(info TextInfo, lines []line) oracle {
	o := oracle{info: info, lines: lines}
	for _, l := range lines {
		c := classify(l.typ, []byte(l.name))
		if c != classIgnored && len(l.name) > MaxNameLen {
			c = classBound
		}
		o.classes = append(o.classes, c)
	}
	return o
}

func (o oracle) lookup(addr uint64) (name string, start, end uint64, ok bool) {
	if addr < o.info.Start || addr >= o.info.End {
		return "", 0, 0, false
	}
	// The nearest address at or below addr where anything begins or ends.
	start = 0
	found := false
	for i, l := range o.lines {
		if o.classes[i] != classIgnored && o.info.Start <= l.addr && l.addr <= addr && (!found || l.addr > start) {
			start, found = l.addr, true
		}
	}
	if !found {
		return "", 0, 0, false
	}
	end = o.info.End
	for i, l := range o.lines {
		if o.classes[i] != classIgnored && l.addr > start {
			end = min(end, l.addr)
		}
	}
	names := o.namesAt(start)
	if len(names) == 0 {
		return "", 0, 0, false
	}
	return names[0], start, end, true
}

// namesAt returns the names at an address, without the twins of other names.
func (o oracle) namesAt(addr uint64) []string {
	var all, left []string
	for i, l := range o.lines {
		if l.addr == addr && o.classes[i] >= classTwin {
			all = append(all, l.name)
		}
	}
	for _, name := range all {
		plain := strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(name, "__pi_"), ".cfi"), ".cfi_jt")
		if plain == name || !slices.Contains(all, plain) {
			left = append(left, name)
		}
	}
	return left
}

// probes returns the addresses at which a lookup could go wrong.
func (o oracle) probes() []uint64 {
	addrs := []uint64{0, o.info.Start - 1, o.info.Start, o.info.End - 1, o.info.End, 1<<64 - 1}
	for _, l := range o.lines {
		addrs = append(addrs, l.addr-1, l.addr, l.addr+1)
	}
	slices.SortFunc(addrs, cmp.Compare)
	return slices.Compact(addrs)
}
