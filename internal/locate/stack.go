// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"strconv"
	"strings"
)

// parseWchan reads the content of /proc/PID/wchan: the name of a function, or "0" for a thread that does not wait or if the
// kernel does not say (proc_pid_wchan in fs/proc/base.c).
func parseWchan(text string) (function string) {
	if text == "0" {
		return ""
	}
	return text
}

// parseStack reads the content of /proc/PID/stack, leaf first. A line is "[<0>] FUNCTION+0xOFFSET/0xLENGTH", with
// " [MODULE]" after it for a function of a module, or "[<0>] 0xADDRESS" for code without a name (proc_pid_stack in
// fs/proc/base.c, __sprint_symbol in kernel/kallsyms.c). Each line is a frame; of a line that is not a function of the core
// kernel, the frame is empty.
func parseStack(text string) (frames []Frame) {
	for line := range strings.Lines(text) {
		frames = append(frames, parseFrame(strings.TrimSuffix(line, "\n")))
	}
	return frames
}

// parseFrame reads a line of a stack.
func parseFrame(line string) Frame {
	symbol, ok := strings.CutPrefix(line, "[<0>] ")
	if !ok {
		return Frame{}
	}
	plus := strings.LastIndexByte(symbol, '+')
	if plus < 1 {
		return Frame{}
	}
	offset, length, _ := strings.Cut(symbol[plus+1:], "/")
	f := Frame{Function: symbol[:plus]}
	var isOffset, isLength bool
	f.Offset, isOffset = parseHex(offset)
	f.Length, isLength = parseHex(length)
	if !isOffset || !isLength {
		return Frame{}
	}
	return f
}

// parseHex reads a number of at most 32 bits that begins with "0x".
func parseHex(text string) (uint64, bool) {
	digits, ok := strings.CutPrefix(text, "0x")
	n, err := strconv.ParseUint(digits, 16, 32)
	return n, ok && err == nil
}
