package perfring

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernelsym/kernelsym/internal/kerneltest"
)

// TestCPUHotplug samples a CPU that goes offline and comes back.
func TestCPUHotplug(t *testing.T) {
	kerneltest.NeedVM(t)
	r := open(t, options())
	kerneltest.Busy(t)
	const cpu = 1
	isOf := func(rec Record) bool { return rec.Type == TypeSample && rec.CPU == cpu }
	readUntil := func(what string, found func(Record) bool) {
		t.Helper()
		for began := time.Now(); ; {
			records, err := r.Read(t.Context(), time.Now().Add(100*time.Millisecond))
			require.NoError(t, err)
			if slices.ContainsFunc(records, found) {
				return
			}
			require.Less(t, time.Since(began), time.Minute, what)
		}
	}
	readUntil("a sample", isOf)
	for range 3 {
		kerneltest.SwitchCPU(t, cpu, false)
		readUntil("a sample of another CPU", func(rec Record) bool { return rec.Type == TypeSample && rec.CPU != cpu })
		kerneltest.SwitchCPU(t, cpu, true)
		readUntil("the CPU is back", func(rec Record) bool { return rec.Type == TypeMissed && rec.CPU == cpu })
		readUntil("a sample", isOf)
	}
}
