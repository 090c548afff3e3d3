// SPDX-License-Identifier: Apache-2.0

package topview

import (
	"bytes"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/printable"
)

type numbers struct{}

func (numbers) Title() string    { return "numbers" }
func (numbers) Header() []string { return []string{"One line,", "and another."} }
func (numbers) Columns() []Column {
	return []Column{{Name: "N", Right: true}, {Name: "NAME"}, {Name: "LANGUAGE"}}
}
func (numbers) Sorts() []string { return []string{"n"} }
func (numbers) Rows(string) []Row {
	return []Row{
		{Key: "a", Cells: []string{"10", "zehn", "German"}},
		{Key: "b", Cells: []string{"9", "nove", ""}},
		{Key: "c", Cells: []string{"8", "ocho", "Spanish"}},
	}
}
func (numbers) Detail(string) Table { return nil }

func TestPrint(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Print(printable.New(&out, false), numbers{}, "n", 2))
	assert.Equal(t, `One line,
and another.

 N  NAME  LANGUAGE
10  zehn  German
 9  nove
`, out.String())
	out.Reset()
	require.NoError(t, Print(printable.New(&out, false), numbers{}, "n", 0))
	assert.Contains(t, out.String(), "ocho")
}

func TestFilter(t *testing.T) {
	keys := func(expression string) (list []string) {
		for _, r := range Filter(numbers{}.Columns(), numbers{}.Rows(""), regexp.MustCompile(expression)) {
			list = append(list, r.Key)
		}
		return list
	}
	assert.Equal(t, []string{"a", "c"}, keys("h"))
	assert.Equal(t, []string{"c"}, keys("^Span"))
	assert.Empty(t, keys("10"), "numbers are no text")
	assert.Len(t, Filter(numbers{}.Columns(), numbers{}.Rows(""), nil), 3)
}
