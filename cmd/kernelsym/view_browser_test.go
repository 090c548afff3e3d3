// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/xml"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// browse returns the page at an address as Chromium has it after its script has run.
func browse(t *testing.T, url string) *element {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	dir, err := os.MkdirTemp("", "kernelsym-chromium") //nolint:usetesting // Chromium's last child may still write there
	require.NoError(t, err)
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var errs strings.Builder
	cmd := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--user-data-dir="+dir, "--window-size=1200,800", "--dump-dom", url)
	cmd.Stderr = &errs
	cmd.WaitDelay = time.Minute
	out, err := cmd.Output()
	require.NoError(t, err, errs.String())
	var page element
	require.NoError(t, xml.Unmarshal(out, &page), "%s", out)
	return &page
}

// element is an element of a page.
type element struct {
	Attributes []xml.Attr `xml:",any,attr"`
	Text       string     `xml:",chardata"`
	Children   []element  `xml:",any"`
}

func (e *element) attribute(name string) string {
	for _, a := range e.Attributes {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// find returns the element with an id.
func (e *element) find(t *testing.T, id string) *element {
	t.Helper()
	for i := range e.Children {
		if e.Children[i].attribute("id") == id {
			return &e.Children[i]
		}
	}
	t.Fatalf("the page has no element %q", id)
	return nil
}

// frames returns the text of each frame that is shown, with its class.
func (e *element) frames(t *testing.T) map[string]string {
	t.Helper()
	shown := make(map[string]string)
	for _, g := range e.find(t, "frames").Children {
		if strings.Contains(g.attribute("style"), "none") {
			continue
		}
		text := g.Children[len(g.Children)-1].Text
		shown[text] = g.attribute("class")
		name, _, _ := strings.Cut(g.Children[0].Text, "\n")
		assert.Equal(t, name, text, "every frame is wide enough for its name")
	}
	return shown
}

// TestViewInBrowser verifies that names are complete, that frames without a name are shown, and
// that the script zooms and searches.
func TestViewInBrowser(t *testing.T) {
	url := serveView(t, profileFile(t, kinds(), message()))
	page := browse(t, url)
	assert.Equal(t, map[string]string{
		"a":                               "core",
		"b":                               "core",
		"[no name]":                       "user",
		"[no name] vmlinux+0x10":          "unnamed",
		"all":                             "all",
		"[no name] libc.so.6+0x1500":      "user",
		"[no name] [kernel.kallsyms]":     "unnamed",
		"do_softirq.part.0":               "core",
		"invoke_softirq (inlined)":        "core",
		"__do_softirq (inlined)":          "core",
		"nft_do_chain":                    "module",
		"[no name] vmlinux+0x1234":        "unnamed",
		"bpf_prog_2e5a4300140595ee_shake": "bpf",
	}, page.frames(t))
	assert.Equal(t, "Click a frame to zoom in, and Esc to zoom out.", page.find(t, "details").Text)

	page = browse(t, url+"#frame=7&search=^nft_")
	frames := page.frames(t)
	assert.NotContains(t, frames, "a", "it is in another stack")
	assert.Equal(t, "core", frames["do_softirq.part.0"], "the frame that is zoomed in on")
	assert.Equal(t, "unnamed above", frames["[no name] [kernel.kallsyms]"])
	assert.Equal(t, "module match", frames["nft_do_chain"])
	assert.Equal(t, "20.0 % are in stacks that match ^nft_", page.find(t, "details").Text)
}
