package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
)

// boots returns the records of boots in which tests printed these values.
func boots(t *testing.T, same, other []string) (all []*record) {
	t.Helper()
	for i := range same {
		r := &record{Writer: io.Discard}
		for _, line := range []string{"ok", kerneltest.SameInEachBoot + same[i], kerneltest.OtherInEachBoot + other[i]} {
			_, err := io.WriteString(r, line+"\n")
			require.NoError(t, err)
		}
		all = append(all, r)
	}
	return all
}

func TestBootsAreCompared(t *testing.T) {
	require.NoError(t, compare(boots(t, []string{"a", "a"}, []string{"b", "c"})))
	require.ErrorContains(t, compare(boots(t, []string{"a", "x"}, []string{"b", "c"})), "two boots differ")
	require.ErrorContains(t, compare(boots(t, []string{"a", "a"}, []string{"b", "b"})), "two boots have the same: b")
	require.ErrorContains(t, compare([]*record{{}, {}}), "nothing was printed")
	require.NoError(t, compare([]*record{{}}), "one boot is not compared")
}
