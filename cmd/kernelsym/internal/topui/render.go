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

// line is a line of the screen.
type line []span

// span is text in one style.
type span struct {
	style ansi.Style
	text  string
}

func plain(text string) line { return line{{text: text}} }

// String returns the line as the terminal gets it. Only its styles control the terminal.
func (l line) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.style.Styled(printable.Text(s.text)))
	}
	return b.String()
}

// in returns the line in one style.
func (l line) in(style ansi.Style) line {
	for i := range l {
		l[i].style = style
	}
	return l
}

// View implements tea.Model.
func (m *model) View() tea.View {
	lines := m.lines()
	shown := make([]string, len(lines))
	for i, l := range lines {
		shown[i] = ansi.Truncate(l.String(), m.width, "…")
	}
	v := tea.NewView(strings.Join(shown, "\n"))
	v.AltScreen = true
	return v
}

// lines returns the lines of the screen.
func (m *model) lines() []line {
	lines := []line{m.title()}
	if m.help {
		for _, h := range help {
			lines = append(lines, plain(fmt.Sprintf("  %-29s  %s", h[0], h[1])))
		}
	} else {
		for _, text := range m.table().Header() {
			lines = append(lines, plain(text))
		}
		lines = append(lines, nil)
		lines = append(lines, m.body()...)
	}
	for len(lines) < m.height-1 {
		lines = append(lines, nil)
	}
	return append(lines[:max(0, min(len(lines), m.height-1))], m.footer())
}

func (m *model) title() line {
	t := "kernelsym top: " + m.table().Title()
	if len(m.table().Sorts()) > 1 {
		t += " by " + m.sortedBy()
	}
	if m.filter.valid != nil {
		t += " with /" + m.filter.valid.String() + "/"
	}
	if m.paused {
		return line{{bold, t + "  "}, {alert, "PAUSED"}}
	}
	return line{{bold, t}}
}

func (m *model) footer() line {
	switch {
	case m.filter.typing && m.filter.err != nil:
		return line{{text: "/" + m.filter.text + "  "}, {alert, "not a regular expression"}}
	case m.filter.typing:
		return plain("/" + m.filter.text)
	case len(m.details) > 0:
		return plain("q quit  p pause  / filter  Enter open  Esc back  ? help")
	case slices.ContainsFunc(m.views, isGrouper):
		return plain("q quit  p pause  / filter  s sort  g group  Enter open  b next view  ? help")
	case len(m.views) > 1:
		return plain("q quit  p pause  / filter  s sort  Enter open  b next view  ? help")
	}
	return plain("q quit  p pause  / filter  s sort  Enter open  ? help")
}

// room returns the number of rows that fit on the screen.
func (m *model) room() int {
	const others = 4 // title, empty line, column headings, footer
	return max(1, m.height-others-len(m.table().Header()))
}

// body returns the table: as many rows around the selected one as fit.
func (m *model) body() []line {
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
	lines := []line{join(columns, cells[0], span{text: strings.Repeat(" ", width)}).in(bold)}
	for i, r := range shown {
		l := join(columns, cells[i+1], span{heat(r.Share), bar(r.Share, most, width)})
		if first+i == m.selected.index {
			l = l.in(selected)
		}
		lines = append(lines, l)
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

// join puts the bar, if there is room for one, between numbers and text.
func join(columns []topview.Column, cells []string, bar span) line {
	const between = "  "
	if bar.text == "" {
		return plain(strings.TrimRight(strings.Join(cells, between), " "))
	}
	n := numbersOf(columns)
	numbers, text := strings.Join(cells[:n], between), strings.Join(cells[n:], between)
	return line{{text: numbers + between}, bar, {text: strings.TrimRight(between+text, " ")}}
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
