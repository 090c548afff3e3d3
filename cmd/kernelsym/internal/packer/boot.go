// SPDX-License-Identifier: Apache-2.0

package packer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/bootimage"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/kelf"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/regularfile"
	"github.com/kernelsym/kernelsym/internal/buildid"
	"github.com/kernelsym/kernelsym/internal/pack"
)

// ErrNoBootImage is returned if the image of the running kernel is in none of the places.
var ErrNoBootImage = errors.New("no boot image of the running kernel was found: name the file")

// A BootImage is a file from which a kernel boots (see [bootimage.Unpack]).
type BootImage struct {
	Name    string // "-" is standard input
	BuildID string // required of the kernel in it; empty allows any
}

// imagePlaces are the paths at which distributions install the boot image of a release, %s.
var imagePlaces = []string{
	"boot/vmlinuz-%s",            // Debian, Ubuntu, Fedora, RHEL, SUSE
	"lib/modules/%s/vmlinuz",     // Fedora, RHEL, Arch; Debian since Linux 7
	"usr/lib/modules/%s/vmlinuz", // the same, where /lib is not a link
}

// RunningImage returns the boot image of the running kernel, which is installed below root. procfs and
// sysfs are where /proc and /sys are mounted.
func RunningImage(root, procfs, sysfs string) (BootImage, error) {
	id, err := buildid.OfKernel(sysfs)
	if err != nil {
		return BootImage{}, err
	}
	text, err := os.ReadFile(filepath.Join(procfs, "sys/kernel/osrelease"))
	if err != nil {
		return BootImage{}, err
	}
	place := placesOf(root, strings.TrimSpace(string(text)))
	for _, format := range imagePlaces {
		if _, err := os.Stat(place(format)); !errors.Is(err, fs.ErrNotExist) {
			return BootImage{Name: place(format), BuildID: id}, nil
		}
	}
	return BootImage{}, fmt.Errorf("%w; looked for %s", ErrNoBootImage, strings.Join(filled(imagePlaces, place), ", "))
}

// Boot makes packs of the core kernels in boot images, with symbols only. They are the packs of the
// core kernel that Running makes. An image named "-" is read from stdin. If a pack cannot be made, Boot
// goes on with the next image; the error joins the errors of all such images, and each names the file.
// After ctx is done, Boot starts no further one.
func Boot(ctx context.Context, images []BootImage, stdin io.Reader, o Options) (Result, error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return Result{}, err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	var c collector
	for _, image := range images {
		if ctx.Err() == nil {
			c.add(o.boot(image, stdin))
		}
	}
	return c.result, errors.Join(append(c.errs, ctx.Err())...)
}

// boot makes the pack of an image.
func (o *Options) boot(image BootImage, stdin io.Reader) (Result, error) {
	info, symbols, err := image.symbols(stdin)
	if err == nil && image.BuildID != "" && info.BuildID != image.BuildID {
		err = fmt.Errorf("%w, %s, than the running kernel, %s: the file was replaced after it was booted",
			ErrOtherBuild, info.BuildID, image.BuildID)
	}
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", image.Name, err)
	}
	return o.writeSymbols(info, symbols)
}

// symbols returns the symbols and the pack.Info of the kernel in an image.
func (image *BootImage) symbols(stdin io.Reader) (info pack.Info, symbols []pack.Symbol, err error) {
	f, err := image.open(stdin)
	if err != nil {
		return info, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	stat, err := f.Stat()
	if err != nil {
		return info, nil, err
	}
	kernel, err := bootimage.Unpack(f, stat.Size())
	if err != nil {
		return info, nil, err
	}
	return kelf.SymbolsOfImage(kernel)
}

// open opens the file. It copies standard input to a temporary file without a name, because parts of
// it are read several times.
func (image *BootImage) open(stdin io.Reader) (*os.File, error) {
	if image.Name != "-" {
		return regularfile.Open(image.Name)
	}
	f, err := os.CreateTemp("", "kernelsym-*")
	if err != nil {
		return nil, err
	}
	n, err := io.Copy(f, io.LimitReader(stdin, bootimage.MaxSize+1))
	if n > bootimage.MaxSize {
		err = bootimage.ErrTooLarge
	}
	if err = errors.Join(err, os.Remove(f.Name())); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
