package bpfprog

import (
	"github.com/kernelsym/kernelsym/internal/perfring"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// isAbout reports whether a record can be about a function that is there. Some kernels
// give the functions of a program the name of its main one.
func isAbout(r *perfring.Record, there *symtab.Function) bool {
	if there.Start != r.Symbol.Addr {
		return false
	}
	tag := symtab.TagOf(r.Symbol.Name)
	if tag == "" {
		return there.Name() == r.Symbol.Name
	}
	return tag == there.Tag() || there.Program != nil && tag == there.Program.Tag
}

// ends reports whether a record can be about the end of a function that is there. Linux
// 5.10 has a tag of its own for the main function of a program that has others, where
// a list has the program's: then it is of the same name.
func ends(r *perfring.Record, there *symtab.Function) bool {
	return isAbout(r, there) || there.Start == r.Symbol.Addr && isNamed(there, r.Symbol.Name)
}

// isNamed reports whether a name is that of a function, but for the tag.
func isNamed(function *symtab.Function, is string) bool {
	const behindTag = len("bpf_prog_0123456789abcdef")
	was := function.Name()
	return is == was || function.Tag() != "" && symtab.TagOf(is) != "" &&
		len(was) > behindTag && is[behindTag:] == was[behindTag:]
}

// originOf classifies what a record names.
func originOf(kind perfring.SymbolKind, name string) symtab.Origin {
	switch {
	case kind == perfring.KsymOOL:
		return symtab.OriginOOL
	case symtab.TagOf(name) != "":
		return symtab.OriginBPF
	}
	return symtab.OriginTrampoline
}
