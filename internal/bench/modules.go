package main

import (
	"archive/tar"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/kernelsym/kernelsym/internal/kmod"
	"github.com/kernelsym/kernelsym/internal/symcache"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// modulesTree is what Linux 6.12 shows of a hundred modules. kmod's TestCapture
// says how it was made.
//
//go:embed testdata/modules.tar.zst
var modulesTree []byte

// benchModules measures the tables of modules.
func benchModules() error {
	dir, err := os.MkdirTemp("", "kernelsym-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := unpack(dir, modulesTree); err != nil {
		return err
	}
	symbols := 0
	held, _ := memory(func() any {
		var snapshot *symtab.Snapshot
		snapshot, err = symcache.Load(context.Background(),
			kmod.NewSource(filepath.Join(dir, "proc"), filepath.Join(dir, "sys"), 0, symtab.History{}))
		for _, t := range snapshot.Tables() {
			for _, m := range t.Modules() {
				symbols += m.Len()
			}
		}
		return snapshot
	})
	if err != nil {
		return err
	}
	report("modules_bytes_per_symbol", held/float64(symbols))
	return nil
}

// unpack unpacks an archive to a directory.
func unpack(dir string, archive []byte) error {
	z, err := zstd.NewReader(bytes.NewReader(archive))
	if err != nil {
		return err
	}
	defer z.Close()
	for r := tar.NewReader(z); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		name := filepath.Join(dir, filepath.FromSlash(header.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return err
		}
	}
}
