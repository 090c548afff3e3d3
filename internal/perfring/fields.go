// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"bytes"
	"encoding/binary"
)

// Numbers from PERF_CONTEXT_MAX on are marks: they say which part of a stack follows. After a
// mark up to PERF_CONTEXT_GUEST, that part is a guest's (enum perf_callchain_context of
// include/uapi/linux/perf_event.h).
const (
	contextMax   = ^uint64(4095) + 1
	contextGuest = ^uint64(2048) + 1
)

// fields decodes a record's body. ok becomes false if the body is too short.
type fields struct {
	rest []byte
	ok   bool
}

func (f *fields) next(n int) []byte {
	if len(f.rest) < n {
		f.ok, f.rest = false, nil
		return make([]byte, n)
	}
	b := f.rest[:n]
	f.rest = f.rest[n:]
	return b
}

func (f *fields) uint16() uint16 { return binary.NativeEndian.Uint16(f.next(2)) }
func (f *fields) uint32() uint32 { return binary.NativeEndian.Uint32(f.next(4)) }
func (f *fields) uint64() uint64 { return binary.NativeEndian.Uint64(f.next(8)) }

// stack reads a call chain. It leaves out the marks, and the addresses of a guest, which mean
// something else here.
func (f *fields) stack() []uint64 {
	n := f.uint64()
	if n > uint64(len(f.rest)/8) {
		f.ok = false
		return nil
	}
	stack, guest := make([]uint64, 0, n), false
	for range n {
		addr := f.uint64()
		switch {
		case addr >= contextMax:
			guest = addr <= contextGuest
		case !guest:
			stack = append(stack, addr)
		}
	}
	return stack
}

// symbol reads the body of a KSYMBOL record.
func (f *fields) symbol() *Symbol {
	s := &Symbol{Addr: f.uint64(), Len: f.uint32(), Kind: SymbolKind(f.uint16())}
	s.Unregister = f.uint16()&ksymbolUnregister != 0
	s.Name = f.name()
	return s
}

// program reads the body of a BPF_EVENT record.
func (f *fields) program() *Program {
	p := &Program{Event: ProgramEvent(f.uint16())}
	f.uint16() // flags: none are defined so far
	p.ID = f.uint32()
	copy(p.Tag[:], f.next(len(p.Tag)))
	return p
}

// name reads a name, which ends with a zero byte and is padded with more. The sample_id comes
// right after it, and is not always the end of the record. If the kernel writes a KSYMBOL
// record for several readers on a CPU, it adds the length of each reader's sample_id to the
// records of all readers after it (perf_event_ksymbol_output in kernel/events/core.c). These
// additional bytes hold stale data.
func (f *fields) name() string {
	length := bytes.IndexByte(f.rest, 0)
	if length < 0 {
		f.ok = false
		return ""
	}
	padded := (length + recordAlign) &^ (recordAlign - 1) // with one zero at least
	return string(f.next(padded)[:length])
}

// sampleID reads the fields after the body of records that are not samples.
func (f *fields) sampleID(r *Record, has recordFields) {
	if has&fieldTID != 0 {
		r.PID, r.TID = f.uint32(), f.uint32()
	}
	r.Time = int64(f.uint64())
	if has&fieldCPU != 0 {
		r.CPU = f.uint32()
		f.uint32()
	}
}
