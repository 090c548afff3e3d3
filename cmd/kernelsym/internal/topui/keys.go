// SPDX-License-Identifier: Apache-2.0

package topui

import (
	"regexp"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
)

// help describes the keys.
var help = [][2]string{
	{"q, Ctrl-C", "quit"},
	{"Ctrl-Z", "stop; fg in the shell goes on"},
	{"p, space", "pause; samples of the pause are not counted"},
	{"/", "show rows that match an expression; Esc: all"},
	{"s", "sort by the next column"},
	{"arrows, PgUp, PgDn, Home, End", "select a row"},
	{"Enter", "open the row: callers, functions or lines"},
	{"Esc, Backspace", "back"},
	{"b", "next view: functions, BPF programs, processes"},
	{"g", "group by process, thread, container or CPU"},
	{"i", "show kernel threads that wait for work, or not"},
	{"c", "BPF programs: the kernel's count, on or off"},
	{"?", "this help; any key closes it"},
}

// press handles a key.
func (m *model) press(key string) tea.Cmd {
	if key == "q" || key == "ctrl+c" {
		return tea.Quit
	}
	if key == "ctrl+z" {
		return tea.Suspend
	}
	if m.help {
		m.help = false
		return nil
	}
	switch key {
	case "p", "space":
		m.paused, m.resumed = !m.paused, time.Now()
	case "/":
		m.filter.typing = true
	case "s":
		m.sortByNext()
	case "b":
		m.nextView()
	case "g":
		m.group()
	case "c":
		if counter, ok := m.views[0].(topview.Counter); ok {
			counter.ToggleCounting()
		}
	case "i":
		for _, v := range m.views {
			if idler, ok := v.(topview.Idler); ok {
				idler.ToggleIdle()
			}
		}
	case "?":
		m.help = true
	case "enter":
		m.enter()
	case "esc", "backspace":
		m.back(key)
	default:
		m.move(key)
	}
	return nil
}

func isGrouper(v topview.View) bool {
	_, ok := v.(topview.Grouper)
	return ok
}

func (m *model) nextView() {
	m.views = append(m.views[1:], m.views[0])
	m.details, m.selected = nil, selection{}
}

// group shows groups of samples. If it shows them already, it groups them by something else.
func (m *model) group() {
	if groups, ok := m.views[0].(topview.Grouper); ok {
		m.details, m.selected = nil, selection{}
		groups.NextGrouping()
		return
	}
	for slices.ContainsFunc(m.views, isGrouper) && !isGrouper(m.views[0]) {
		m.nextView()
	}
}

// move moves the selection.
func (m *model) move(key string) {
	rows := m.rows()
	by, ok := map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1,
		"pgup": -m.room(), "pgdown": m.room(),
		"home": -len(rows), "end": len(rows),
	}[key]
	if ok {
		m.selected.move(rows, by)
	}
}

// enter shows the details of the selected row.
func (m *model) enter() {
	rows := m.rows()
	m.selected.follow(rows)
	if len(rows) == 0 {
		return
	}
	if detail := m.table().Detail(rows[m.selected.index].Key); detail != nil {
		m.details = append(m.details, detail)
		m.selected, m.filter = selection{}, filter{}
	}
}

// back goes back to the previous table. Esc first clears the filter, if there is one.
func (m *model) back(key string) {
	if key == "esc" && m.filter.valid != nil {
		m.filter = filter{}
		return
	}
	if n := len(m.details); n > 0 {
		m.details, m.selected = m.details[:n-1], selection{}
	}
}

// press edits the text of the filter. While the text is not a regular expression, the last valid
// one still selects the rows.
func (f *filter) press(key tea.KeyPressMsg) {
	switch key.String() {
	case "enter":
		f.typing = f.err != nil
		return
	case "esc":
		*f = filter{}
		return
	case "backspace":
		if runes := []rune(f.text); len(runes) > 0 {
			f.text = string(runes[:len(runes)-1])
		}
	default:
		f.text += key.Text
	}
	expression, err := regexp.Compile(f.text)
	f.err = err
	switch {
	case f.text == "":
		f.valid = nil
	case err == nil:
		f.valid = expression
	}
}
