// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFairQueue has users ask for items, and serves items. Each step is a user with the items that it asks for, or "serve".
func TestFairQueue(t *testing.T) {
	for name, tt := range map[string]struct{ asked, served string }{
		"the drawing":                               {"A: a a a' c | B: b c | serve | serve | serve | serve", "c b a a'"},
		"users take turns":                          {"A: a a a' a' a' | B: b | serve | serve | serve", "a' b a"},
		"an item of several users is first":         {"A: a a a c | B: c | serve | serve", "c a"},
		"what several want is one user's turn":      {"A: c a a | B: c b | serve | serve | serve", "c b a"},
		"it is the turn of one who waited":          {"A: s s c a | E: s | B: c b | D: d | serve | serve | serve | serve | serve", "s c d a b"},
		"asked for before it was served":            {"A: a a a | serve | A: a b b | serve", "a b"},
		"nothing is left":                           {"A: a | serve | serve", "a -"},
		"a new user is not first":                   {"A: a | serve | A: a' a' | B: b | serve | serve", "a a' b"},
		"a served user waits behind others":         {"A: a a a a' a' | serve | B: b | serve | A: a a a | serve | serve", "a a' b a"},
		"what several want is before what is older": {"B: b b | A: a | serve | A: c | C: c | serve | serve", "b c a"},
		"who asked before has not waited since":     {"A: a | B: b b | serve | A: a' | serve | B: b' b' | serve | serve", "b a b' a'"},
	} {
		t.Run(name, func(t *testing.T) {
			q := newFairQueue[string]()
			demands := make(map[string]*demand)
			var served []string
			for step := range strings.SplitSeq(tt.asked, " | ") {
				user, items, isUser := strings.Cut(step, ": ")
				if !isUser {
					item, ok := q.pop()
					if !ok {
						item = "-"
					}
					served = append(served, item)
					continue
				}
				for item := range strings.FieldsSeq(items) {
					if demands[item] == nil {
						demands[item] = new(demand)
					}
					demands[item].add(user)
					if q.waiting[item] == nil {
						q.push(item, demands[item])
					}
				}
			}
			assert.Equal(t, tt.served, strings.Join(served, " "))
		})
	}
}

// TestFairQueueIsBounded gives very many users a turn each, and has all of them ask for one item.
func TestFairQueueIsBounded(t *testing.T) {
	q, all := newFairQueue[int](), new(demand)
	for i := range 3 * maxLast {
		user, d := strconv.Itoa(i), new(demand)
		d.add(user)
		q.push(i, d)
		got, ok := q.pop()
		require.True(t, ok)
		require.Equal(t, i, got)
		require.LessOrEqual(t, len(q.last), maxLast)
		all.add(user)
	}
	assert.Equal(t, []string{"0", "1", "2", "3"}, all.users)
}
