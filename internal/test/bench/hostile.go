// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/kernelsym/kernelsym/internal/rewrite"
	"github.com/kernelsym/kernelsym/internal/rewrite/rewritetest"
	"github.com/kernelsym/kernelsym/internal/timeline"
)

// benchHostile measures messages meant to cost more than their size. It measures each shape at one
// size and at four times that size, and reports the worst results of all shapes: how many times as
// long the rewrite takes as unmarshalling and marshalling, and how many times as long the larger
// message takes as the smaller one, relative to its size.
func benchHostile(core *timeline.Image, known rewrite.Sources, rounds int) error {
	const n, times = 25_000, 4
	addresses := hostileAddresses(core)
	type worst struct {
		value float64
		shape string
	}
	var cost, growth worst
	for _, shape := range rewritetest.HostileShapes {
		var took [2]time.Duration
		for i, n := range []int{n, times * n} {
			pd := shape.New(n, addresses)
			wire, through, err := codec(pd, 1)
			if err != nil {
				return err
			}
			rewriter := rewrite.New(options)
			t := medians(min(rounds, 5), wall,
				task{prepare: func() { pd = unmarshal(wire) }, run: func() { rewriter.Rewrite(pd, known) }}, through)
			took[i] = t[0]
			if v := ratio(t[0], t[1]); v > cost.value {
				cost = worst{v, shape.Name}
			}
		}
		if v := ratio(took[1], took[0]) / times; v > growth.value {
			growth = worst{v, shape.Name}
		}
	}
	report("hostile_vs_codec", cost.value)
	report("hostile_growth", growth.value)
	fmt.Printf("      worst: %s; %s\n", cost.shape, growth.shape)
	return nil
}

// hostileAddresses returns addresses in two functions, and one where a function begins right after
// another. There, a leaf belongs to another function than a caller.
func hostileAddresses(core *timeline.Image) (a [3]uint64) {
	a[0], a[1] = core.Text.Symbol(0).Start+1, core.Text.Symbol(core.Len()/2).Start+1
	for i := 1; i < core.Len(); i++ {
		if s := core.Text.Symbol(i); s.Start == core.Text.Symbol(i-1).End() {
			a[2] = s.Start
			return a
		}
	}
	return a
}
