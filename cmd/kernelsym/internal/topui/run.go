// SPDX-License-Identifier: Apache-2.0

// Package topui shows the tables of package topview on a terminal.
package topui

import (
	"context"
	"errors"
	"os"
	"sync"

	tea "charm.land/bubbletea/v2"

	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/live"
	"github.com/kernelsym/kernelsym/cmd/kernelsym/internal/topview"
)

// A Terminal is the terminal to show tables on.
type Terminal struct {
	In, Out *os.File
}

// A Sample samples until ctx is done and calls visit with each batch.
type Sample func(ctx context.Context, visit func(*live.Batch)) error

// Run samples and shows the views, beginning with the first, until the user quits, ctx is done, or
// sampling fails. It always restores the terminal.
func Run(ctx context.Context, on Terminal, views []topview.View, sample Sample) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Signals arrive through ctx. Nothing moves on the screen, so a few frames a second suffice.
	p := tea.NewProgram(newModel(views), tea.WithInput(on.In), tea.WithOutput(on.Out),
		tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond))
	var sampling sync.WaitGroup
	var sampleErr error
	sampling.Go(func() {
		defer p.Quit()
		sampleErr = topview.Recovered(func() error {
			return sample(ctx, func(b *live.Batch) { p.Send(b) })
		})
	})
	_, err := p.Run()
	cancel()
	sampling.Wait()
	return errors.Join(err, sampleErr)
}

const framesPerSecond = 10
