package kmod

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

// TestChurn loads and unloads modules, which take each other's addresses, and
// compares the table with a fresh one in the end.
func TestChurn(t *testing.T) {
	kerneltest.NeedModules(t)
	f := followRunning(t, 5*time.Millisecond)
	modules := []string{"veth", "dummy", "ifb", "nlmon", "macvlan"}
	for i := range 200 {
		name := modules[i%len(modules)]
		if err := kerneltest.LoadModule(name); err != nil {
			require.NoError(t, err)
		}
		if i%7 != 0 {
			require.NoError(t, kerneltest.UnloadModule(name))
		}
	}
	for _, name := range modules {
		_ = kerneltest.UnloadModule(name)
	}
	require.NoError(t, kerneltest.LoadModule("veth"))
	var got, want []string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Second) {
		f.mu.Lock()
		got = described(f.table)
		f.mu.Unlock()
		if want = described(running(t)); slices.Equal(got, want) {
			break
		}
	}
	assert.Equal(t, want, got, "as a fresh table")
}

func described(table *symtab.Table) (modules []string) {
	for _, m := range table.Modules() {
		modules = append(modules, fmt.Sprintf("%+v, %d symbols", m.ModuleInfo, m.Len()))
	}
	return modules
}
