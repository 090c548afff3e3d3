// SPDX-License-Identifier: Apache-2.0

package perfring

import "testing"

func FuzzParse(f *testing.F) {
	f.Add(sample(uint64(3), contextKernel, leaf, caller))
	f.Add(inMode(cpuModeGuestKernel, sample(uint64(1), contextKernel)))
	f.Add(record(TypeComm, uint32(20), uint32(21), "name\x00\x00\x00\x00", id))
	f.Add(record(TypeLost, uint64(1), uint64(42), id))
	f.Add(record(TypeFork, uint32(20), uint32(10), uint32(21), uint32(11), uint64(99), id))
	f.Add(record(TypeKsymbol, leaf, uint32(77), uint16(1), uint16(1), "bpf_prog_x\x00\x00\x00\x00\x00\x00", id))
	f.Add(record(TypeBPFEvent, uint16(1), uint16(0), uint32(99), "12345678", id))
	addDumps(f)
	f.Add(sampleInCgroup)
	f.Add(newCgroup)
	f.Add(switchWith(switchOut))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, has := range []recordFields{sampleFields, sampleFields | fieldCgroup, nameFields} {
			fuzzParse(t, raw, has)
		}
	})
}

func fuzzParse(t *testing.T, raw []byte, has recordFields) {
	t.Helper()
	r, ok, err := parse(raw, has)
	if ok && err != nil {
		t.Fatal("both a record and an error")
	}
	if len(r.Stack) > len(raw)/8 || len(r.Comm) > len(raw) {
		t.Fatalf("%d addresses and a name of %d in %d bytes", len(r.Stack), len(r.Comm), len(raw))
	}
	if ok && (r.Symbol != nil) != (r.Type == TypeKsymbol) || ok && (r.Program != nil) != (r.Type == TypeBPFEvent) {
		t.Fatalf("record %+v", r)
	}
	if r.Symbol != nil && len(r.Symbol.Name) > len(raw)-headerLen-16-8 {
		t.Fatalf("a name of %d in %d bytes", len(r.Symbol.Name), len(raw))
	}
	if ok && (r.Cgroup != nil) != (r.Type == TypeCgroup) || has&fieldCgroup == 0 && r.InCgroup != 0 {
		t.Fatalf("record %+v", r)
	}
	if ok && (r.Switch != 0) != (r.Type == TypeSwitch) {
		t.Fatalf("record %+v", r)
	}
	if r.Cgroup != nil && len(r.Cgroup.Path) > len(raw)-headerLen-8-8 {
		t.Fatalf("a path of %d in %d bytes", len(r.Cgroup.Path), len(raw))
	}
}
