// SPDX-License-Identifier: Apache-2.0

package uevent

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const added = "add@/module/xfs\x00ACTION=add\x00DEVPATH=/module/xfs\x00SUBSYSTEM=module\x00SEQNUM=4711\x00"

func TestParse(t *testing.T) {
	e, err := parse([]byte(added))
	require.NoError(t, err)
	assert.Equal(t, Event{Action: "add", DevPath: "/module/xfs", Subsystem: "module"}, e)

	e, err = parse([]byte("change@/x\x00DEVPATH=/a=b\x00OTHER\x00ACTION=change"))
	require.NoError(t, err)
	assert.Equal(t, Event{Action: "change", DevPath: "/a=b"}, e)

	e, err = parse([]byte("add@/x\x00ACTION=add\x00DEVPATH=/x\x00SUBSYSTEM=cpu\x00SYNTH_UUID=0\x00"))
	require.NoError(t, err)
	assert.Equal(t, Event{Action: "add", DevPath: "/x", Subsystem: "cpu", Synthetic: true}, e)
}

func TestParseErrors(t *testing.T) {
	for name, message := range map[string]string{
		"empty":          "",
		"of udev":        "libudev\x00\xfe\xed\xca\xfe",
		"cut off":        "add@/module/xfs",
		"without path":   "add@/module/xfs\x00ACTION=add\x00",
		"without @":      "add/module/xfs\x00ACTION=add\x00DEVPATH=/x\x00",
		"no action at @": "@/module\x00ACTION=add\x00DEVPATH=/x\x00",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse([]byte(message))
			assert.ErrorIs(t, err, ErrSyntax)
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(added))
	f.Add([]byte("change@/x\x00DEVPATH=/a=b\x00OTHER\x00ACTION=change"))
	f.Fuzz(func(t *testing.T, message []byte) {
		e, err := parse(message)
		if len(e.Action)+len(e.DevPath)+len(e.Subsystem) > len(message) {
			t.Fatal("more than there was")
		}
		if (err == nil) != (e.Action != "" && e.DevPath != "") {
			t.Fatalf("%+v, %v", e, err)
		}
	})
}
