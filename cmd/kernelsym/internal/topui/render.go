// SPDX-License-Identifier: Apache-2.0

package topui

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
)

// Styles. With NO_COLOR, or on a terminal without colors, tea leaves the colors out.
var (
	bold     = ansi.NewStyle().Bold()
	selected = ansi.NewStyle().Reverse(true)
	hot      = ansi.NewStyle().ForegroundColor(ansi.Red)   // from 5 %, as in perf top
	warm     = ansi.NewStyle().ForegroundColor(ansi.Green) // from 0.5 %
	alert    = ansi.NewStyle().ForegroundColor(ansi.Yellow).Bold()
)

// barWidth is the length of the longest bar. A bar is shorter, or left out, where the screen has no room for it beside the
// numbers and the first column of text.
const barWidth = 12

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	return v
}

// lines returns the lines of the screen.
func (m *model) lines() []string {
	lines := []string{bold.Styled(m.title())}
	if m.help {
		for _, h := range help {
			lines = append(lines, fmt.Sprintf("  %-29s  %s", h[0], h[1]))
		}
	} else {
		lines = append(lines, topview.Header(m.table())...)
		lines = append(lines, "")
		lines = append(lines, m.body()...)
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:max(0, min(len(lines), m.height-1))], m.footer())
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	return lines
}

func (m *model) title() string {
	t := "kernelsym top: " + printable.Text(m.table().Title())
	if len(m.table().Sorts()) > 1 {
		t += " by " + m.sortedBy()
	}
	if m.filter.valid != nil {
		t += " with /" + m.filter.valid.String() + "/"
	}
	if m.paused {
		t += "  " + alert.Styled("PAUSED")
	}
	return t
}

func (m *model) footer() string {
	switch {
	case m.filter.typing && m.filter.err != nil:
		return "/" + m.filter.text + "  " + alert.Styled("not a regular expression")
	case m.filter.typing:
		return "/" + m.filter.text
	case len(m.details) > 0:
		return "q quit  p pause  / filter  Enter open  Esc back  ? help"
	case slices.ContainsFunc(m.views, isGrouper):
		return "q quit  p pause  / filter  s sort  g group  Enter open  b next view  ? help"
	case len(m.views) > 1:
		return "q quit  p pause  / filter  s sort  Enter open  b next view  ? help"
	}
	return "q quit  p pause  / filter  s sort  Enter open  ? help"
}

// room returns the number of rows that fit on the screen.
func (m *model) room() int {
	const others = 4 // title, empty line, column headings, footer
	return max(1, m.height-others-len(m.table().Header()))
}

// body returns the table: as many rows around the selected one as fit.
func (m *model) body() []string {
	rows := m.rows()
	m.selected.follow(rows)
	first := max(0, min(m.selected.index-m.room()/2, len(rows)-m.room()))
	shown := topview.Limit(rows[min(first, len(rows)):], m.room())
	columns := m.table().Columns()
	most := 0.0
	for _, r := range rows {
		most = max(most, r.Share)
	}
	cells := topview.Cells(columns, shown)
	width := m.barWidth(columns, cells[0])
	lines := []string{bold.Styled(join(columns, cells[0], strings.Repeat(" ", width)))}
	for i, r := range shown {
		if first+i == m.selected.index {
			lines = append(lines, selected.Styled(join(columns, cells[i+1], bar(r.Share, most, width))))
			continue
		}
		lines = append(lines, join(columns, cells[i+1], heat(r.Share).Styled(bar(r.Share, most, width))))
	}
	return lines
}

// barWidth returns the room for bars, given the cells of the headings, which are as wide as their columns.
func (m *model) barWidth(columns []topview.Column, headings []string) int {
	numbers := numbersOf(columns)
	others := len("  ")
	for _, cell := range headings[:min(numbers+1, len(headings))] {
		others += len([]rune(cell)) + len("  ")
	}
	return max(0, min(barWidth, m.width-others))
}

// numbersOf returns the number of columns with numbers, which come first.
func numbersOf(columns []topview.Column) (n int) {
	for n < len(columns) && columns[n].Right {
		n++
	}
	return n
}

// join puts the bar, if there is one, between numbers and text.
func join(columns []topview.Column, cells []string, bar string) string {
	if n := numbersOf(columns); bar != "" {
		cells = slices.Insert(slices.Clone(cells), n, bar)
	}
	return strings.TrimRight(strings.Join(cells, "  "), " ")
}

// bar returns a bar of a width. A row with the greatest share fills it.
func bar(share, most float64, width int) string {
	if most <= 0 {
		most = 1
	}
	eighths := int(share/most*8*float64(width) + 0.5)
	full := min(width, eighths/8)
	b := strings.Repeat("█", full)
	if rest := eighths % 8; full < width && rest > 0 {
		b += string([]rune(" ▏▎▍▌▋▊▉")[rest])
		full++
	}
	return b + strings.Repeat(" ", width-full)
}

func heat(share float64) ansi.Style {
	switch {
	case share >= 0.05:
		return hot
	case share >= 0.005:
		return warm
	}
	return ansi.NewStyle()
}
