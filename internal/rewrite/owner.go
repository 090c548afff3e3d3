package rewrite

import "github.com/kernelsym/kernelsym/internal/symtab"

// owner is whose code a frame is, a module's or a function's that is none's. If
// neither is known, it is the zero value.
type owner struct {
	module   *symtab.Module
	function *symtab.Function
}

func ownerOf(s symtab.Symbol) owner { return owner{module: s.Module, function: s.Function} }

func (o owner) isKnown() bool { return o != owner{} }

// origin returns the kind of code, OriginKernel if the owner is not known.
func (o owner) origin() symtab.Origin {
	switch {
	case o.module != nil:
		return o.module.Origin
	case o.function != nil:
		return o.function.Origin
	}
	return symtab.OriginKernel
}

// base returns the address that offsets count from.
func (o owner) base() uint64 {
	if o.function != nil {
		return o.function.Start
	}
	return o.module.Base
}
