// SPDX-License-Identifier: Apache-2.0

package topui

import (
	"cmp"
	"regexp"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
)

// model is the state of the screen.
type model struct {
	views         []topview.View // at least one; the shown one is first
	details       []topview.Table
	sorts         map[string]string // chosen sort keys, by title of the table
	filter        filter
	selected      selection
	width, height int
	paused, help  bool
	resumed       time.Time // when the last pause ended
}

// filter is the expression that selects rows.
type filter struct {
	typing bool
	text   string
	valid  *regexp.Regexp // the last valid expression; nil for all rows
	err    error          // the error in text
}

// selection is the row under the cursor. It follows its row when that moves. In the first place, it
// stays there.
type selection struct {
	index int
	key   string // empty in the first place
}

func newModel(views []topview.View) *model {
	return &model{views: slices.Clone(views), sorts: make(map[string]string), width: 80, height: 24}
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case *live.Batch:
		m.add(msg)
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.ResumeMsg:
		m.resumed = time.Now()
	case tea.KeyPressMsg:
		if m.filter.typing && msg.String() != "ctrl+c" && msg.String() != "ctrl+z" {
			m.filter.press(msg)
			return m, nil
		}
		return m, m.press(msg.String())
	}
	return m, nil
}

// add adds a batch to all views. It does not count a batch that has samples from a pause.
func (m *model) add(b *live.Batch) {
	for _, v := range m.views {
		if m.paused || b.Start.Before(m.resumed) {
			v.Skip()
			continue
		}
		v.Add(b)
	}
}

// table returns the table that is shown.
func (m *model) table() topview.Table {
	if n := len(m.details); n > 0 {
		return m.details[n-1]
	}
	return m.views[0]
}

// sortedBy returns the sort key of the table: the chosen one, or the default.
func (m *model) sortedBy() string {
	return cmp.Or(m.sorts[m.table().Title()], m.table().Sorts()[0])
}

// sortByNext sorts the table by its next sort key.
func (m *model) sortByNext() {
	sorts := m.table().Sorts()
	if len(sorts) < 2 {
		return
	}
	m.sorts[m.table().Title()] = sorts[(slices.Index(sorts, m.sortedBy())+1)%len(sorts)]
	m.selected = selection{}
}

// rows returns the rows that pass the filter.
func (m *model) rows() []topview.Row {
	t := m.table()
	return topview.Filter(t.Columns(), t.Rows(m.sortedBy()), m.filter.valid)
}

// follow moves the selection to where its row is now.
func (s *selection) follow(rows []topview.Row) {
	if i := slices.IndexFunc(rows, func(r topview.Row) bool { return r.Key == s.key }); s.key != "" && i >= 0 {
		s.index = i
	}
	s.index = max(0, min(s.index, len(rows)-1))
}

// move moves the selection by a number of rows.
func (s *selection) move(rows []topview.Row, by int) {
	s.follow(rows)
	s.index = max(0, min(s.index+by, len(rows)-1))
	s.key = ""
	if s.index > 0 {
		s.key = rows[s.index].Key
	}
}
