// SPDX-License-Identifier: Apache-2.0

package kernelstack

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kallsyms"
	"github.com/kernelsym/kernelsym/internal/symtab"
)

func TestIsScheduler(t *testing.T) {
	for name, want := range map[string]bool{
		"schedule": true, "__schedule": true, "__schedule.constprop.0": true, "schedule_timeout_killable": true,
		"schedule_hrtimeout_range_clock.part.0": true, "io_schedule": true, "yield": true,
		"mutex_lock": false, "__mutex_lock.constprop.0": false, "wait_for_completion": false, "do_nanosleep": false,
		"schedule_work": false, "schedule_tail": false, "": false,
	} {
		assert.Equal(t, want, IsScheduler(name), name)
	}
}

// TestReadScheduler verifies which addresses are the scheduler's, and what is said where they cannot be told.
func TestReadScheduler(t *testing.T) {
	const list = "ffffffff81000000 T _stext\n" +
		"ffffffff81001000 t __schedule\n" +
		"ffffffff81002000 T schedule\n" +
		"ffffffff81003000 T mutex_lock\n" +
		"ffffffff81004000 T schedule_timeout\n" +
		"ffffffff81005000 T _etext\n"
	for _, tt := range []struct {
		name, list string
		want       []symtab.Range
		err        error
	}{
		{"readable", list, []symtab.Range{
			{Start: 0xffffffff81001000, End: 0xffffffff81002000}, {Start: 0xffffffff81002000, End: 0xffffffff81003000},
			{Start: 0xffffffff81004000, End: 0xffffffff81005000},
		}, nil},
		{"hidden", "0000000000000000 T _stext\n0000000000000000 T schedule\n0000000000000000 T _etext\n", nil, kallsyms.ErrRestricted},
		{"another kernel", "ffffffff81000000 T _stext\nffffffff81005000 T _etext\n", nil, ErrScheduler},
		{"absent", "", nil, os.ErrNotExist},
	} {
		t.Run(tt.name, func(t *testing.T) {
			proc := t.TempDir()
			if tt.list != "" {
				require.NoError(t, os.WriteFile(filepath.Join(proc, "kallsyms"), []byte(tt.list), 0o600))
			}
			got, err := readScheduler(&Options{Procfs: proc})
			assert.ElementsMatch(t, tt.want, got)
			if tt.err == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, tt.err)
			require.ErrorIs(t, err, ErrScheduler)
		})
	}
}
