// SPDX-License-Identifier: Apache-2.0

//go:build !(linux && (amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x))

package bpf

import (
	"io"

	"github.com/kernelsym/kernelsym/internal/btf"
)

// A Reader asks the kernel for programs, on 64-bit Linux machines.
type Reader struct{}

// Next returns ErrUnsupported.
func (*Reader) Next(uint32) (uint32, error) { return 0, ErrUnsupported }

// Program returns ErrUnsupported.
func (*Reader) Program(uint32, Want) (*Program, error) { return nil, ErrUnsupported }

// BTF returns ErrUnsupported.
func (*Reader) BTF(uint32) (*btf.BTF, error) { return nil, ErrUnsupported }

// ModuleBTF returns ErrUnsupported.
func (*Reader) ModuleBTF(uint32, *btf.BTF) (string, *btf.BTF, error) { return "", nil, ErrUnsupported }

// Floor returns ErrUnsupported.
func (*Reader) Floor(Want) (int, error) { return 0, ErrUnsupported }

// EnableStats returns ErrStats.
func EnableStats() (io.Closer, error) { return nil, ErrStats }
