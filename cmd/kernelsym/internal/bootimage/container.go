// SPDX-License-Identifier: Apache-2.0

package bootimage

import (
	"debug/pe"
	"encoding/binary"
	"fmt"
)

// isBzImage recognizes the header of x86 (Documentation/arch/x86/boot.rst).
func isBzImage(head []byte) bool { return len(head) == headLen && hasAt(head, 0x202, "HdrS") }

// openBzImage returns the contents of the payload, which the setup code and its own decompressor
// precede.
func openBzImage(l layer, head []byte) (layer, error) {
	const sector, payloadSince = 512, 0x0208 // version of the protocol
	if version := binary.LittleEndian.Uint16(head[0x206:]); version < payloadSince {
		return layer{}, fmt.Errorf("%w: boot protocol %#x", ErrNotImage, version)
	}
	setup := int64(head[0x1f1])
	if setup == 0 {
		setup = 4
	}
	off, n := binary.LittleEndian.Uint32(head[0x248:]), binary.LittleEndian.Uint32(head[0x24c:])
	payload, err := l.part((1+setup)*sector+int64(off), int64(n))
	if err != nil {
		return layer{}, err
	}
	return openSized(payload)
}

// isZboot recognizes the header of an image that decompresses itself under EFI
// (drivers/firmware/efi/libstub/zboot-header.S).
func isZboot(head []byte) bool { return isPE(head) && hasAt(head, 4, "zimg") && len(head) == headLen }

func openZboot(l layer, head []byte) (layer, error) {
	off, n := int64(binary.LittleEndian.Uint32(head[8:])), int64(binary.LittleEndian.Uint32(head[12:]))
	if !hasAt(head, 24, "gzip") {
		n += sizeLen // only gzip counts it as part of its format
	}
	payload, err := l.part(off, n)
	if err != nil {
		return layer{}, err
	}
	return openSized(payload)
}

// isPE recognizes an EFI program.
func isPE(head []byte) bool { return hasAt(head, 0, "MZ") }

// openUKI returns the section of a unified kernel image that holds the kernel
// (https://uapi-group.org/specifications/specs/unified_kernel_image/).
func openUKI(l layer, _ []byte) (layer, error) {
	f, err := pe.NewFile(l)
	if err != nil {
		return layer{}, fmt.Errorf("%w: %w", ErrNotImage, err)
	}
	var kernel *pe.Section
	for _, s := range f.Sections {
		switch {
		case s.Name != ".linux":
		case kernel != nil:
			return layer{}, fmt.Errorf("%w: it has several kernels", ErrNotImage)
		default:
			kernel = s
		}
	}
	if kernel == nil {
		return layer{}, fmt.Errorf("%w: no section .linux", ErrNotImage)
	}
	n := kernel.Size // padded, unlike the size in memory
	if kernel.VirtualSize != 0 {
		n = min(n, kernel.VirtualSize)
	}
	return l.part(int64(kernel.Offset), int64(n))
}
