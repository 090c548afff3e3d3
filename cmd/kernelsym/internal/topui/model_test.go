// SPDX-License-Identifier: Apache-2.0

package topui

import (
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
)

// fake is a view of fruit. Each batch adds to the pears.
type fake struct {
	of      string // the row that it is the detail of
	batches int
	skipped int
	bad     bool
}

func (f *fake) Add(*live.Batch) {
	f.batches++
	if f.bad {
		panic("the view is broken")
	}
}

func (f *fake) Skip() { f.skipped++ }

func (f *fake) Title() string {
	if f.of != "" {
		return "inside of " + f.of
	}
	return "fruit"
}

func (f *fake) Header() []string { return []string{"Today:"} }

func (f *fake) Columns() []topview.Column {
	return []topview.Column{{Name: "COUNT", Right: true}, {Name: "NAME"}, {Name: "KIND"}}
}

func (f *fake) Sorts() []string {
	if f.of != "" {
		return []string{"count"}
	}
	return []string{"count", "name"}
}

func (f *fake) Rows(sort string) []topview.Row {
	apple := topview.Row{Key: "1", Cells: []string{"30", "apple", "sweet"}, Share: 0.30}
	pear := topview.Row{Key: "2", Cells: []string{"10", "pear", "sweet"}, Share: 0.10}
	lemon := topview.Row{Key: "3", Cells: []string{"5", "lemon", "sour"}, Share: 0.005}
	switch {
	case sort == "name":
		return []topview.Row{apple, lemon, pear}
	case f.batches > 3:
		pear.Cells[0], pear.Share = "60", 0.60
		return []topview.Row{pear, apple, lemon}
	}
	return []topview.Row{apple, pear, lemon}
}

func (f *fake) Detail(key string) topview.Table {
	if key == "3" {
		return nil
	}
	return &fake{of: key}
}

func (f *fake) JSON(int) any { return nil }

// other is another view.
type other struct{ fake }

func (other) Title() string { return "vegetables" }

func press(m *model, keys ...string) (quit bool) {
	for _, k := range keys {
		msg := tea.KeyPressMsg{Text: k, Code: []rune(k)[0]}
		if code, ok := map[string]rune{
			"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "up": tea.KeyUp,
			"end": tea.KeyEnd, "home": tea.KeyHome, "backspace": tea.KeyBackspace, "space": tea.KeySpace,
		}[k]; ok {
			msg = tea.KeyPressMsg{Code: code}
		}
		_, cmd := m.Update(msg)
		quit = cmd != nil
	}
	return quit
}

// screen returns the screen without styles.
func screen(m *model) string { return ansi.Strip(m.View().Content) }

func newTest(views ...topview.View) *model {
	if len(views) == 0 {
		views = []topview.View{&fake{}, &other{}}
	}
	m := newModel(views)
	m.Update(tea.WindowSizeMsg{Width: 60, Height: 9})
	return m
}

// hostile is a table in which every text is hostile.
type hostile struct{ fake }

const escapes = "\x1b]0;pwned\x07\u202e\u009b31m\xff\n"

func (*hostile) Title() string    { return escapes }
func (*hostile) Header() []string { return []string{escapes} }
func (*hostile) Rows(string) []topview.Row {
	return []topview.Row{{Key: "1", Cells: []string{"30", escapes, escapes}, Share: 0.30}, {Key: "2", Cells: []string{"3", escapes, escapes}}}
}

// TestHostileScreen verifies that only styles control the terminal.
func TestHostileScreen(t *testing.T) {
	m := newTest(&hostile{})
	press(m, "/", escapes)
	for _, screen := range []string{m.View().Content, func() string { press(m, "enter"); return m.View().Content }()} {
		assert.GreaterOrEqual(t, strings.Count(screen, "pwned"), 4)
		assert.Equal(t, 8, strings.Count(screen, "\n"), "the lines of the screen")
		styles := regexp.MustCompile(`\x1b\[[0-9;]*m`)
		assert.NotEmpty(t, styles.FindString(screen))
		assert.Equal(t, -1, strings.IndexFunc(styles.ReplaceAllString(screen, ""), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }), "%q", screen)
	}
}

func TestScreen(t *testing.T) {
	assert.Equal(t, `kernelsym top: fruit by count
Today:

COUNT                NAME   KIND
   30  ████████████  apple  sweet
   10  ████          pear   sweet
    5  ▎             lemon  sour

q quit  p pause  / filter  s sort  Enter open  b next view …`, screen(newTest()))
}

// TestSmallScreens verifies that nothing is wider or longer than the screen.
func TestSmallScreens(t *testing.T) {
	m := newTest()
	for width := range 40 {
		for height := 1; height < 12; height++ {
			m.Update(tea.WindowSizeMsg{Width: width, Height: height})
			lines := strings.Split(screen(m), "\n")
			require.LessOrEqual(t, len(lines), height)
			for _, l := range lines {
				require.LessOrEqual(t, ansi.StringWidth(l), width)
			}
		}
	}
}

func TestSortAndNextView(t *testing.T) {
	m := newTest()
	press(m, "s")
	assert.Contains(t, screen(m), "fruit by name")
	assert.Equal(t, []string{"1", "3", "2"}, keys(m))
	press(m, "s")
	assert.Contains(t, screen(m), "fruit by count")
	press(m, "b")
	assert.Contains(t, screen(m), "vegetables")
	press(m, "b")
	assert.Contains(t, screen(m), "fruit")
}

// TestEachViewHasItsSort verifies that neither a detail nor another view changes the sort key.
func TestEachViewHasItsSort(t *testing.T) {
	m := newTest()
	press(m, "enter", "s", "esc")
	assert.Contains(t, screen(m), "fruit by count")
	press(m, "s", "b")
	assert.Contains(t, screen(m), "vegetables by count")
	press(m, "s", "s", "b")
	assert.Contains(t, screen(m), "fruit by name")
}

func keys(m *model) (list []string) {
	for _, r := range m.rows() {
		list = append(list, r.Key)
	}
	return list
}

func TestFilter(t *testing.T) {
	m := newTest()
	press(m, "/", "s", "w", "e", "+", "t")
	assert.Equal(t, []string{"1", "2"}, keys(m), "keys are text while it is typed")
	assert.Contains(t, screen(m), "fruit by count with /swe+t/")
	press(m, "(")
	assert.Contains(t, screen(m), "not a regular expression")
	assert.Equal(t, []string{"1", "2"}, keys(m))
	press(m, "enter")
	assert.Contains(t, screen(m), "not a regular expression", "Enter does not apply another one")
	press(m, "backspace", "enter", "s")
	assert.Contains(t, screen(m), "fruit by name")
	press(m, "/", "x")
	assert.Empty(t, keys(m))
	press(m, "enter", "down", "enter")
	assert.Contains(t, screen(m), "fruit", "there is nothing to enter")
	press(m, "esc")
	assert.Len(t, keys(m), 3)
	press(m, "/", "3", "0")
	assert.Empty(t, keys(m), "numbers are no text")
	press(m, "esc")
	assert.Len(t, keys(m), 3)
}

// TestSelectionFollowsItsRow verifies that a row stays selected when it moves, except in the first
// place.
func TestSelectionFollowsItsRow(t *testing.T) {
	selectedRow := func(m *model) string {
		_ = screen(m)
		return m.rows()[m.selected.index].Key
	}
	pears := func(m *model) {
		for range 4 {
			m.Update(&live.Batch{})
		}
	}
	m := newTest()
	assert.Equal(t, "1", selectedRow(m))
	pears(m)
	assert.Equal(t, "2", selectedRow(m))

	m = newTest()
	press(m, "down")
	assert.Equal(t, "2", selectedRow(m))
	press(m, "down", "down", "down", "up")
	assert.Equal(t, "2", selectedRow(m))
	press(m, "end")
	assert.Equal(t, "3", selectedRow(m))
	press(m, "home", "down")
	pears(m)
	assert.Equal(t, "2", selectedRow(m))
	assert.Equal(t, 0, m.selected.index)
}

// TestMoreRowsThanRoom verifies that the selected row is on the screen.
func TestMoreRowsThanRoom(t *testing.T) {
	m := newTest()
	m.Update(tea.WindowSizeMsg{Width: 60, Height: 7})
	assert.NotContains(t, screen(m), "lemon")
	press(m, "end")
	assert.Contains(t, screen(m), "lemon")
	assert.NotContains(t, screen(m), "apple")
}

func TestDetails(t *testing.T) {
	m := newTest()
	press(m, "down", "enter")
	assert.Contains(t, screen(m), "inside of 2")
	press(m, "enter")
	assert.Contains(t, screen(m), "inside of 1")
	press(m, "esc")
	assert.Contains(t, screen(m), "inside of 2")
	press(m, "backspace")
	assert.Contains(t, screen(m), "fruit")
	press(m, "end", "enter")
	assert.Contains(t, screen(m), "fruit", "it has no details")
	press(m, "home", "enter", "b")
	assert.Contains(t, screen(m), "vegetables")
}

func TestPause(t *testing.T) {
	v := &fake{}
	m := newTest(v)
	for _, key := range []string{"p", "space"} {
		press(m, key)
		assert.Contains(t, screen(m), "PAUSED")
		m.Update(&live.Batch{})
		press(m, key)
		assert.NotContains(t, screen(m), "PAUSED")
	}
	assert.Zero(t, v.batches)
	assert.Equal(t, 2, v.skipped)
	m.Update(&live.Batch{Start: m.resumed.Add(-time.Nanosecond), End: m.resumed.Add(time.Second)})
	assert.Equal(t, 3, v.skipped, "a part was sampled during the pause")
	assert.Zero(t, v.batches)
	m.Update(&live.Batch{Start: time.Now()})
	assert.Equal(t, 3, v.skipped)
	assert.Equal(t, 1, v.batches)
}

func TestHelp(t *testing.T) {
	m := newTest()
	m.Update(tea.WindowSizeMsg{Width: 100, Height: 30})
	press(m, "?")
	for _, h := range help {
		assert.Contains(t, screen(m), h[1])
	}
	press(m, "p")
	assert.Contains(t, screen(m), "apple")
	assert.False(t, m.paused, "the key only closes it")
}

func TestQuitKeys(t *testing.T) {
	assert.True(t, press(newTest(), "q"))
	assert.True(t, press(newTest(), "?", "q"))
	m := newTest()
	assert.False(t, press(m, "/", "q"))
	_, cmd := m.Update(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl})
	assert.NotNil(t, cmd, "Ctrl-C quits also while an expression is typed")
}

// people is a view of groups, whose counts can be toggled.
type people struct {
	fake
	grouping, toggled, idle int
}

func (p *people) Title() string               { return "people by " + []string{"country", "city"}[p.grouping%2] }
func (p *people) NextGrouping()               { p.grouping++ }
func (p *people) ToggleCounting()             { p.toggled++ }
func (p *people) ToggleIdle()                 { p.idle++ }
func (p *people) Detail(string) topview.Table { return &fake{of: "someone"} }

// TestGroup: g goes to the view of groups, then to the next grouping, also out of a detail.
func TestGroup(t *testing.T) {
	groups := &people{}
	m := newTest(&fake{}, &other{}, groups)
	assert.Contains(t, screen(m), "g group")
	press(m, "enter", "g")
	assert.Contains(t, screen(m), "people by country")
	press(m, "enter", "g")
	assert.Contains(t, screen(m), "people by city")
	press(m, "b")
	assert.Contains(t, screen(m), "fruit", "after the last comes the first")

	m = newTest()
	press(m, "g", "c")
	assert.Contains(t, screen(m), "fruit", "there is nothing to group or count")
	assert.NotContains(t, screen(m), "g group")
}

// TestToggle: c is for the shown view only.
func TestToggle(t *testing.T) {
	counted := &people{}
	m := newTest(&fake{}, counted)
	press(m, "c")
	assert.Zero(t, counted.toggled)
	press(m, "b", "c", "c")
	assert.Equal(t, 2, counted.toggled)
}

// TestIdle: i is for all views, whichever is shown.
func TestIdle(t *testing.T) {
	first, second := &people{}, &people{}
	m := newTest(first, &fake{}, second)
	press(m, "enter", "i")
	assert.Contains(t, screen(m), "inside of", "details stay")
	press(m, "b", "i", "i")
	assert.Equal(t, []int{3, 3}, []int{first.idle, second.idle})
}

// TestHelpFits: no line is cut at 80 columns.
func TestHelpFits(t *testing.T) {
	m := newTest(&fake{}, &other{}, &people{})
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	assert.NotContains(t, screen(m), "…")
	press(m, "?")
	assert.NotContains(t, screen(m), "…")
	for _, h := range help {
		assert.Contains(t, screen(m), h[1])
	}
}

// TestWidths: on a narrow screen, bars give way to the numbers and the first column of text.
func TestWidths(t *testing.T) {
	for width, want := range map[int]string{
		14: "   30  apple …", 20: "   30  ████  apple …", 28: "   30  ████████████  apple …", 80: "   30  ████████████  apple  sweet",
	} {
		m := newTest()
		m.Update(tea.WindowSizeMsg{Width: width, Height: 9})
		assert.Equal(t, want, strings.Split(screen(m), "\n")[4], width)
		for _, line := range strings.Split(screen(m), "\n") {
			assert.LessOrEqual(t, ansi.StringWidth(line), width)
		}
	}
}
