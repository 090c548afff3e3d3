// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"strconv"
	"strings"
)

// A TrampolineKey identifies the function that a BPF trampoline belongs to (bpf_trampoline_compute_key in
// include/linux/bpf_verifier.h, since Linux 5.11):
//
//	63            32 31 30                     0
//	BTF object id    1  type of a FUNC in it       a function of the core kernel or of a module
//	program id       0  type of a FUNC in its BTF  a function of a BPF program
type TrampolineKey uint64

// KeyOf returns the key in a trampoline's symbol, "bpf_trampoline_KEY" with a decimal number. Other code has none.
func KeyOf(symbol string) (key TrampolineKey, ok bool) {
	digits, ok := strings.CutPrefix(symbol, "bpf_trampoline_")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return TrampolineKey(n), err == nil
}

const ofKernel = 1 << 31

// IsOfKernel reports whether the function belongs to the core kernel or to a module.
func (k TrampolineKey) IsOfKernel() bool { return k&ofKernel != 0 }

// Object returns the id of a BTF object or of a program.
func (k TrampolineKey) Object() uint32 { return uint32(k >> 32) }

// Type returns the number of the function's type in BTF.
func (k TrampolineKey) Type() uint32 { return uint32(k) &^ ofKernel }

// A TracedFunction is a function of the core kernel or of a module that has a trampoline. The zero value stands for a
// function that is not known.
type TracedFunction struct {
	Image string // KernelName, or the name of a module
	Name  string // one of the symbols of its first byte; the kernel may print another
}

// IsTrampolineOf reports whether a trampoline certainly belongs to the function of a hit, which must have a symbol.
func (s *Snapshot) IsTrampolineOf(trampoline *Image, function Hit) bool {
	key, ok := KeyOf(trampoline.Name())
	if !ok {
		return false
	}
	of := function.Image
	if !key.IsOfKernel() {
		return of.Program != nil && of.Program.ID == key.Object() && of.TypeID != 0 && of.TypeID == key.Type()
	}
	for _, t := range s.Tables() {
		if traced := t.traced[key]; !of.IsFunction() && traced.Image == of.Name() && of.Text.HasName(function.Symbol, traced.Name) {
			return true
		}
	}
	return false
}
