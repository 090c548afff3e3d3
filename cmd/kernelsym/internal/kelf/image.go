// SPDX-License-Identifier: Apache-2.0

package kelf

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/bootimage"
	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// An image is a kernel as it is loaded, without symbols: an ELF file, or a raw image of arm64.
type image struct {
	data []byte
	elf  *elf.File // nil for a raw image
	list *ownList
}

// SymbolsOfImage returns the symbols of a kernel that [bootimage.Unpack] has returned, and the matching
// description. The running kernel has the same symbols, since they come from the list that it carries
// for itself (CONFIG_KALLSYMS). The error wraps [ErrNoList] if the image has
// no list, or several, and [buildid.ErrNotFound] if it has no build id.
func SymbolsOfImage(data []byte) (info pack.Info, symbols []pack.Symbol, err error) {
	im, arch, err := openImage(data)
	if err != nil {
		return info, nil, err
	}
	id, err := im.buildID()
	if err != nil {
		return info, nil, err
	}
	list, err := im.list.print(anchor{"_stext", imageStext})
	if err != nil {
		return info, nil, err
	}
	m, err := kallsyms.ParseCore(bytes.NewReader(list), arch, id, buildid.FileID(id))
	if err != nil {
		return info, nil, err
	}
	info = pack.Info{BuildID: id, Name: pack.KernelName, Arch: arch, Release: releaseIn(data)}
	return info, Describe(m, m.Start, &info), nil
}

// imageStext stands for the address of _stext, which a pack does not have.
const imageStext = 1 << 63

// openImage finds the list in an image. arch is named as in GOARCH.
func openImage(data []byte) (im *image, arch string, err error) {
	im = &image{data: data}
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case bootimage.IsELF(data):
		if im.elf, err = elf.NewFile(bytes.NewReader(data)); err != nil {
			return nil, "", err
		}
		order = im.elf.ByteOrder
		if arch, err = archOf(im.elf); err != nil {
			return nil, "", err
		}
	case bootimage.IsArm64(data):
		arch = "arm64"
	default:
		return nil, "", bootimage.ErrNotImage
	}
	im.list, err = findOwnList(data, order)
	return im, arch, err
}

// buildID returns the GNU build id. A raw image has no headers that point to its notes, but its list
// does if it has the symbols of data (CONFIG_KALLSYMS_ALL). To look for the notes would also find those
// of the vDSO.
func (im *image) buildID() (string, error) {
	if im.elf != nil {
		return readBuildID(im.elf)
	}
	offsets, err := im.list.distances("_text", "__start_notes", "__stop_notes")
	if err != nil {
		return "", fmt.Errorf("%w: the image shows where they are only with CONFIG_KALLSYMS_ALL", buildid.ErrNotFound)
	}
	start, end := offsets[1], offsets[2] // a raw image begins with _text
	if start > end || end > uint64(len(im.data)) {
		return "", fmt.Errorf("%w: the image ends before them", buildid.ErrNotFound)
	}
	return buildid.ParseOrder(bytes.NewReader(im.data[start:end]), im.list.order)
}

// releaseIn returns the release in the kernel's banner, empty if there are several.
func releaseIn(data []byte) (release string) {
	for {
		i := bytes.Index(data, []byte(bannerStart))
		if i < 0 {
			return release
		}
		data = data[i:]
		found := releaseOf(data[:min(maxBanner, len(data))])
		if release != "" && found != "" && found != release {
			return ""
		}
		release = cmp.Or(release, found)
		data = data[len(bannerStart):]
	}
}
