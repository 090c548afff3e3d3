// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/flame"
)

// browse returns the page at an address as Chromium has it after its script has run.
func browse(t *testing.T, url string, flags ...string) *element {
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
		"--user-data-dir="+dir, "--window-size=1200,800", "--dump-dom")
	cmd.Args = append(append(cmd.Args, flags...), url)
	cmd.Stderr = &errs
	cmd.WaitDelay = time.Minute
	out, err := cmd.Output()
	require.NoError(t, err, errs.String())
	var page element
	decoder := xml.NewDecoder(bytes.NewReader(out))
	decoder.Strict, decoder.AutoClose, decoder.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	require.NoError(t, decoder.Decode(&page), "%s", out)
	return &page
}

// act has Chromium run a script on a page of view, and returns the page after it. The script can wait for steps back in the
// history, and for a while.
func act(t *testing.T, url, script string) *element {
	t.Helper()
	page := get(t, url)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, strings.Replace(page, "</body>", `<script>
const press = (key, on = document.getElementById("frames")) => on.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const click = (element) => element.dispatchEvent(new MouseEvent("click", { bubbles: true }));
const popped = () => new Promise((done) => addEventListener("popstate", () => setTimeout(done), { once: true }));
(async () => {`+script+`})().catch((e) => { document.getElementById("details").textContent = e; });
</script></body>`, 1))
	}))
	defer server.Close()
	return browse(t, server.URL, "--virtual-time-budget=10000", roomy)
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
	found := e.search(id)
	require.NotNil(t, found, "the page has no element %q", id)
	return found
}

func (e *element) search(id string) *element {
	if e.attribute("id") == id {
		return e
	}
	for i := range e.Children {
		if found := e.Children[i].search(id); found != nil {
			return found
		}
	}
	return nil
}

// text returns the text in an element.
func (e *element) text() string {
	text := e.Text
	for i := range e.Children {
		text += e.Children[i].text() + " "
	}
	return text
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
		shown[text] = strings.TrimSuffix(g.attribute("class"), " selected")
		name, _, _ := strings.Cut(g.Children[0].Text, "\n")
		assert.Equal(t, name, text, "every frame is wide enough for its name")
	}
	return shown
}

// roomy makes the window so wide that there is room for names beside the table.
const roomy = "--window-size=1800,800"

// TestViewInBrowser verifies that names are complete, that frames without a name are shown, and
// that the script zooms and searches.
func TestViewInBrowser(t *testing.T) {
	url := serveView(t, profileFile(t, kinds(), message()))
	page := browse(t, url, roomy)
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
	assert.Equal(t, "Click a frame to zoom in. Esc goes back. Arrow keys and Enter work, too.", page.find(t, "details").Text)
	assert.NotEqual(t, "display: none;", page.find(t, "side").attribute("style"), "a wide page has a table")
	assert.Contains(t, page.find(t, "table").text(), "nft_do_chain")

	page = browse(t, url+"#frame=7&search=^nft_", roomy)
	frames := page.frames(t)
	assert.NotContains(t, frames, "a", "it is in another stack")
	assert.Equal(t, "core", frames["do_softirq.part.0"], "the frame that is zoomed in on")
	assert.Equal(t, "unnamed above", frames["[no name] [kernel.kallsyms]"])
	assert.Equal(t, "module match", frames["nft_do_chain"])
	assert.Equal(t, "20.0 % are in stacks that match ^nft_", page.find(t, "details").Text)
}

// TestViewRunsNoOtherScript verifies that a browser runs the page's own script under its policy, and no other.
func TestViewRunsNoOtherScript(t *testing.T) {
	page := get(t, serveView(t, profileFile(t, kinds())))
	page = strings.Replace(page, "</body>", `<script>document.body.id = "pwned"</script></body>`, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", flame.ContentPolicy)
		_, _ = io.WriteString(w, page)
	}))
	defer server.Close()
	shown := browse(t, server.URL, roomy)
	assert.True(t, shown.search("pwned") == nil, "the other script ran") //nolint:testifylint // a failure of Nil prints the page
	assert.Contains(t, shown.find(t, "table").text(), "nft_do_chain", "its own script makes the table")
}

// TestViewByKeyboard verifies that keys move among the frames, zoom in, and go back one step at a time, as the browser's own
// button does.
func TestViewByKeyboard(t *testing.T) {
	url := serveView(t, profileFile(t, kinds()))
	const toSoftirq = `
		const index = (name) => [...document.querySelectorAll("#frames > g")].findIndex((g) => g.textContent.startsWith(name));
		click(document.querySelectorAll("#frames > g")[index("do_softirq")]);
		press("ArrowDown"); press("Enter");`
	page := act(t, url, toSoftirq)
	assert.Equal(t, "core", page.frames(t)["invoke_softirq (inlined)"], "it is zoomed in on")
	assert.Equal(t, "core above", page.frames(t)["do_softirq.part.0"])

	page = act(t, url, toSoftirq+`press("Escape"); await popped();`)
	assert.Equal(t, "core", page.frames(t)["do_softirq.part.0"], "one step back")
	assert.Equal(t, "user above", page.frames(t)["[no name] libc.so.6+0x1500"])

	page = act(t, url, toSoftirq+`history.back(); await popped(); press("Escape"); await popped();`)
	assert.Equal(t, "user", page.frames(t)["[no name] libc.so.6+0x1500"], "two steps back, by the browser's button and by a key")

	page = act(t, url, `press("/"); document.getElementById("details").textContent = document.activeElement.type;`)
	assert.Equal(t, "search", page.find(t, "details").Text, "the field to search has the keys")

	page = act(t, url, `click([...document.querySelectorAll("#table button")].find((b) => b.textContent === "nft_do_chain"));`)
	assert.Equal(t, "module match", page.frames(t)["nft_do_chain"], "a function of the table is searched for")
}

// TestViewOnAPhone verifies that the heading wraps, and that there is no table until it is asked for.
func TestViewOnAPhone(t *testing.T) {
	page := browse(t, serveView(t, profileFile(t, kinds())), "--window-size=400,800")
	assert.Contains(t, page.find(t, "bar").text(), "in the kernel")
	assert.Equal(t, "display: none;", page.find(t, "side").attribute("style"))
}
