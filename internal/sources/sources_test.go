// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/kernelsym/kernelsym/internal/symcache"
)

func TestSourcesCanBeSwitchedOff(t *testing.T) {
	for _, tt := range []struct {
		modules, bpf bool
		want         []string
	}{
		{true, true, []string{"kallsyms", "bpf", "modules"}},
		{true, false, []string{"kallsyms", "modules"}},
		{false, true, []string{"kallsyms", "bpf"}},
		{false, false, []string{"kallsyms"}},
	} {
		o := Options{Procfs: "/proc", Sysfs: "/sys", Modules: Modules{Enabled: tt.modules}, BPF: BPF{Enabled: tt.bpf}}
		var names []string
		for _, s := range ListOn("linux", o, nil, zap.NewNop()) {
			names = append(names, s.Name())
		}
		assert.Equal(t, tt.want, names)
	}
}

// TestRefreshable: all sources of code that comes and goes can be refreshed.
func TestRefreshable(t *testing.T) {
	for _, s := range List(Everything("/proc", "/sys")) {
		_, ok := s.(symcache.Refresher)
		assert.Equal(t, s.Name() != "kallsyms", ok, s.Name())
	}
}

func TestOnAnotherSystemItSaysWhyThereAreNoNames(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	assert.Empty(t, ListOn("darwin", Options{}, nil, zap.New(core)))
	require.Equal(t, 1, logs.Len())
	assert.Equal(t, "Kernel frames get no names: this is not Linux", logs.All()[0].Message)
}
