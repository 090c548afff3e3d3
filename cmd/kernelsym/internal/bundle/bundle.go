// SPDX-License-Identifier: Apache-2.0

// Package bundle writes what a bug report needs into one file.
//
// A bundle reveals neither the addresses of the kernel's code nor the names of the host: every file
// passes through a [scrubber].
package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/doctor"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
)

// Options select the contents of a bundle.
type Options struct {
	Version string
	Report  *doctor.Report
	Packs   string // directory; empty for none
	Metrics string // URL; empty for none
	Log     string // file; empty for none
}

// A file is a file in a bundle.
type file struct {
	name, about string
	content     []byte
}

// Write writes a bundle as a .tar.gz file.
func Write(ctx context.Context, w io.Writer, o Options) error {
	return write(w, collect(ctx, o), newScrubber(hostNames()))
}

// collect collects the files of a bundle. A file whose data cannot be read contains the reason.
func collect(ctx context.Context, o Options) []file {
	var text, report bytes.Buffer
	_ = o.Report.WriteText(printable.New(&text, false), doctor.Columns) // a bytes.Buffer never fails
	_ = o.Report.WriteJSON(printable.New(&report, false))
	files := []file{
		{"doctor.txt", "output of kernelsym doctor", text.Bytes()},
		{"doctor.json", "the same for programs", report.Bytes()},
		{"machine.json", "versions, sysctls, capabilities, limits of the process and its control group", encode(readMachine(o))},
		{"symbols.json", "numbers of symbols and BPF programs, times to read them, modules with build ids", encode(o.Report.Details)},
	}
	if o.Packs != "" {
		files = append(files, file{"packs.json", "the directory of packs", encode(listPacks(o.Packs))})
	}
	if o.Metrics != "" {
		files = append(files, file{"metrics.txt", "metrics of kernelsym and of the collector's process", fetchMetrics(ctx, o.Metrics)})
	}
	if o.Log != "" {
		files = append(files, file{"collector.log", "end of the collector's log", readEnd(o.Log)})
	}
	return files
}

const introduction = `This is a bundle of kernelsym doctor --bundle. It is made for a bug report.

Kernel addresses are replaced by ` + addressMark + `, the names of this host by ` + hostMark + `.
Everything else is as it was, so read collector.log, if there is one, before you send it: it has
whatever the collector logged.

`

// write writes the files, and a README.txt that describes each of them.
func write(w io.Writer, files []file, s *scrubber) error {
	compressed := gzip.NewWriter(w)
	archive := tar.NewWriter(compressed)
	readme := introduction
	for _, f := range files {
		readme += f.name + ": " + f.about + "\n"
	}
	for i, f := range append([]file{{name: "README.txt", content: []byte(readme)}}, files...) {
		if i > 0 {
			f.content = s.scrub(f.content)
		}
		if err := archive.WriteHeader(&tar.Header{
			Name: "kernelsym-bundle/" + f.name, Mode: 0o644, Size: int64(len(f.content)), ModTime: time.Now().Truncate(time.Second),
		}); err != nil {
			return err
		}
		if _, err := archive.Write(f.content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return compressed.Close()
}

// encode returns JSON that people can read as well.
func encode(v any) []byte {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil { // cannot happen: the data consists of maps, numbers and text
		return []byte(err.Error())
	}
	return append(text, '\n')
}
