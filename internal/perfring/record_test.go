// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// record returns a record as the kernel writes it: numbers of 16, 32 and 64 bits, and
// bytes.
func record(typ Type, body ...any) []byte {
	raw := binary.NativeEndian.AppendUint32(nil, uint32(typ))
	raw = append(raw, 0, 0, 0, 0)
	for _, field := range body {
		switch v := field.(type) {
		case uint16:
			raw = binary.NativeEndian.AppendUint16(raw, v)
		case uint32:
			raw = binary.NativeEndian.AppendUint32(raw, v)
		case uint64:
			raw = binary.NativeEndian.AppendUint64(raw, v)
		case string:
			raw = append(raw, v...)
		}
	}
	binary.NativeEndian.PutUint16(raw[6:], uint16(len(raw)))
	return raw
}

// id is a sample_id: process 10, thread 11, time 12, CPU 3.
var id = string(record(0, uint32(10), uint32(11), uint64(12), uint32(3), uint32(0))[headerLen:])

const (
	leaf   = uint64(0xffffffff81000010)
	caller = uint64(0xffffffff81000020)
)

// stale is the stale data at the end of a record that the kernel made too long.
var stale = strings.Repeat("\xff", sampleIDLen)

// longest is a name of the maximum length, KSYM_NAME_LEN-1.
var longest = strings.Repeat("n", 511)

func sample(stack ...any) []byte {
	return record(TypeSample, append([]any{leaf, uint32(10), uint32(11), uint64(12), uint32(3), uint32(0)}, stack...)...)
}

// sampleInCgroup is a sample that has its cgroup, and newCgroup a record of a cgroup in a ring of names.
var (
	sampleInCgroup = sample(uint64(2), contextKernel, leaf, uint64(99))
	newCgroup      = record(TypeCgroup, uint64(99), "/a/b\x00\x00\x00\x00", uint64(12))
)

// switchWith is a switch from or to thread 21, with flags in the field misc.
func switchWith(misc uint16) []byte {
	return inMode(misc, record(TypeSwitch, uint32(20), uint32(21), id))
}

// inMode sets the field misc of a record's header.
func inMode(misc uint16, raw []byte) []byte {
	binary.NativeEndian.PutUint16(raw[4:], misc)
	return raw
}

// The marks of stacks (enum perf_callchain_context of include/uapi/linux/perf_event.h).
const (
	contextKernel      = ^uint64(128) + 1
	contextGuestKernel = ^uint64(2176) + 1
	contextGuestUser   = ^uint64(2560) + 1
)

func TestParse(t *testing.T) {
	type test struct {
		name string
		raw  []byte
		want Record
		has  recordFields
	}
	tests := []test{
		{
			"sample in a cgroup", sampleInCgroup,
			Record{Type: TypeSample, Time: 12, CPU: 3, PID: 10, TID: 11, Stack: []uint64{leaf}, InCgroup: 99}, sampleFields | fieldCgroup,
		},
		{
			"cgroup", newCgroup,
			Record{Type: TypeCgroup, Time: 12, Cgroup: &Cgroup{ID: 99, Path: "/a/b"}}, nameFields,
		},
		{
			"cgroup whose path has all but the maximum length", record(TypeCgroup, uint64(99), "/"+strings.Repeat("p", MaxCgroupPath-2)+"\x00", uint64(12)),
			Record{Type: TypeCgroup, Time: 12, Cgroup: &Cgroup{ID: 99, Path: "/" + strings.Repeat("p", MaxCgroupPath-2)}}, nameFields,
		},
		{
			"comm in a ring of names", record(TypeComm, uint32(20), uint32(21), "name\x00\x00\x00\x00", uint64(12)),
			Record{Type: TypeComm, Time: 12, PID: 20, TID: 21, Comm: "name"}, nameFields,
		},
		{
			"fork in a ring of names", record(TypeFork, uint32(20), uint32(10), uint32(21), uint32(11), uint64(99), uint64(12)),
			Record{Type: TypeFork, Time: 12, PID: 20, TID: 21, Parent: 11}, nameFields,
		},
		{
			"lost in a ring of names", record(TypeLost, uint64(1), uint64(42), uint64(12)),
			Record{Type: TypeLost, Time: 12, Lost: 42}, nameFields,
		},
	}
	for _, tt := range []struct {
		name string
		raw  []byte
		want Record
	}{
		{
			"sample", sample(uint64(3), contextKernel, leaf, caller),
			Record{Type: TypeSample, Time: 12, CPU: 3, PID: 10, TID: 11, Stack: []uint64{leaf, caller}},
		},
		{
			"sample without stack", sample(uint64(0)),
			Record{Type: TypeSample, Time: 12, CPU: 3, PID: 10, TID: 11, Stack: []uint64{}},
		},
		{
			"sample of a guest's kernel", inMode(cpuModeGuestKernel, sample(uint64(1), contextKernel)),
			Record{Type: TypeSample, Time: 12, CPU: 3, PID: 10, TID: 11, Guest: true, Stack: []uint64{}},
		},
		{
			"sample of a guest's user code, marked exact", inMode(cpuModeGuestUser|1<<14, sample(uint64(1), contextKernel)),
			Record{Type: TypeSample, Time: 12, CPU: 3, PID: 10, TID: 11, Guest: true, Stack: []uint64{}},
		},
		{
			"sample of user code, marked exact", inMode(2|1<<14, sample(uint64(0))),
			Record{Type: TypeSample, Time: 12, CPU: 3, PID: 10, TID: 11, Stack: []uint64{}},
		},
		{
			"sample with the stack of a guest", inMode(cpuModeGuestKernel, sample(
				uint64(6), contextGuestKernel, leaf, contextGuestUser, uint64(0x1000), contextKernel, caller,
			)),
			Record{Type: TypeSample, Time: 12, CPU: 3, PID: 10, TID: 11, Guest: true, Stack: []uint64{caller}},
		},
		{
			"lost", record(TypeLost, uint64(1), uint64(42), id),
			Record{Type: TypeLost, Time: 12, CPU: 3, PID: 10, TID: 11, Lost: 42},
		},
		{
			"comm", record(TypeComm, uint32(20), uint32(21), "name\x00\x00\x00\x00", id),
			Record{Type: TypeComm, Time: 12, CPU: 3, PID: 20, TID: 21, Comm: "name"},
		},
		{
			"comm of full length", record(TypeComm, uint32(20), uint32(21), "fifteen_letters\x00", id),
			Record{Type: TypeComm, Time: 12, CPU: 3, PID: 20, TID: 21, Comm: "fifteen_letters"},
		},
		{
			"fork", record(TypeFork, uint32(20), uint32(10), uint32(21), uint32(11), uint64(99), id),
			Record{Type: TypeFork, Time: 12, CPU: 3, PID: 20, TID: 21, Parent: 11},
		},
		{
			"exit", record(TypeExit, uint32(20), uint32(10), uint32(21), uint32(11), uint64(99), id),
			Record{Type: TypeExit, Time: 12, CPU: 3, PID: 20, TID: 21, Parent: 11},
		},
		{
			"ksymbol", record(TypeKsymbol, leaf, uint32(77), uint16(1), uint16(0), "bpf_prog_x\x00\x00\x00\x00\x00\x00", id),
			Record{Type: TypeKsymbol, Time: 12, CPU: 3, PID: 10, TID: 11, Symbol: &Symbol{Addr: leaf, Len: 77, Kind: KsymBPF, Name: "bpf_prog_x"}},
		},
		{
			"ksymbol that goes", record(TypeKsymbol, leaf, uint32(77), uint16(2), uint16(1), "x\x00\x00\x00\x00\x00\x00\x00", id),
			Record{Type: TypeKsymbol, Time: 12, CPU: 3, PID: 10, TID: 11, Symbol: &Symbol{Addr: leaf, Len: 77, Kind: KsymOOL, Unregister: true, Name: "x"}},
		},
		{
			"ksymbol of a kind and with flags to come", record(TypeKsymbol, leaf, ^uint32(0), uint16(9), ^uint16(1), longest+"\x00", id),
			Record{Type: TypeKsymbol, Time: 12, CPU: 3, PID: 10, TID: 11, Symbol: &Symbol{Addr: leaf, Len: ^uint32(0), Kind: 9, Name: longest}},
		},
		{
			"ksymbol for another reader, too", record(TypeKsymbol, leaf, uint32(77), uint16(1), uint16(0), "seventh\x00", id, stale),
			Record{Type: TypeKsymbol, Time: 12, CPU: 3, PID: 10, TID: 11, Symbol: &Symbol{Addr: leaf, Len: 77, Kind: KsymBPF, Name: "seventh"}},
		},
		{
			"BPF event for another reader, too", record(TypeBPFEvent, uint16(1), uint16(0), uint32(99), "12345678", id, stale),
			Record{Type: TypeBPFEvent, Time: 12, CPU: 3, PID: 10, TID: 11, Program: &Program{Event: ProgramLoad, ID: 99, Tag: [8]byte([]byte("12345678"))}},
		},
		{
			"BPF event", record(TypeBPFEvent, uint16(2), uint16(0), uint32(99), "12345678", id),
			Record{Type: TypeBPFEvent, Time: 12, CPU: 3, PID: 10, TID: 11, Program: &Program{Event: ProgramUnload, ID: 99, Tag: [8]byte([]byte("12345678"))}},
		},
		{
			"switch to a thread", switchWith(0), Record{Type: TypeSwitch, Time: 12, CPU: 3, PID: 10, TID: 11, Switch: SwitchIn},
		},
		{
			"switch from a thread that blocks", switchWith(switchOut),
			Record{Type: TypeSwitch, Time: 12, CPU: 3, PID: 10, TID: 11, Switch: SwitchBlocked},
		},
		{
			"switch from a thread that could go on", switchWith(switchOut | switchOutPreempt),
			Record{Type: TypeSwitch, Time: 12, CPU: 3, PID: 10, TID: 11, Switch: SwitchRunnable},
		},
		{
			"throttle", record(TypeThrottle, uint64(1), uint64(2), uint64(3), id),
			Record{Type: TypeThrottle, Time: 12, CPU: 3, PID: 10, TID: 11},
		},
	} {
		tests = append(tests, test{tt.name, tt.raw, tt.want, sampleFields})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok, err := parse(tt.raw, tt.has)
			require.NoError(t, err)
			assert.True(t, ok)
			assert.Equal(t, tt.want, got)

			for n := range len(tt.raw) - bytes.Count(tt.raw, []byte(stale))*len(stale) {
				_, ok, err := parse(tt.raw[:n], tt.has)
				require.ErrorIs(t, err, ErrMalformed, "cut to %d bytes", n)
				assert.False(t, ok)
			}
		})
	}
}

func TestParseOfOtherTypes(t *testing.T) {
	for _, typ := range []Type{0, 1, 6, 10, 20, 1000, 1 << 31} {
		_, ok, err := parse(record(typ, uint64(1)), sampleFields)
		require.NoError(t, err)
		assert.False(t, ok)
	}
}

func TestParseNameWithoutEnd(t *testing.T) {
	for _, name := range []string{"", "eightchr", longest + "x"} {
		_, _, err := parse(record(TypeComm, uint32(20), uint32(21), name, stale), sampleFields)
		require.ErrorIs(t, err, ErrMalformed)
		_, _, err = parse(record(TypeKsymbol, leaf, uint32(77), uint16(1), uint16(0), name, stale), sampleFields)
		require.ErrorIs(t, err, ErrMalformed)
	}
}

func TestParseImpossibleStack(t *testing.T) {
	for _, n := range []uint64{4, 1 << 20, 1<<61 + 3, ^uint64(0)} {
		_, _, err := parse(sample(n, leaf, leaf, leaf), sampleFields)
		assert.ErrorIs(t, err, ErrMalformed, "%d addresses", n)
	}
}

func TestParseCPUList(t *testing.T) {
	for list, want := range map[string][]int{
		"0": {0}, "0-3": {0, 1, 2, 3}, "0,2-3,8": {0, 2, 3, 8},
	} {
		got, err := ParseCPUs(list)
		require.NoError(t, err, list)
		assert.Equal(t, want, got)
	}
	for _, list := range []string{"", "x", "1-", "-1", "3-x", "1,1", "2,1", "0-3,2", "1-0", "0,5-3", "70000", "0-1,"} {
		_, err := ParseCPUs(list)
		assert.Error(t, err, list)
	}
}
