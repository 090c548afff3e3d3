// SPDX-License-Identifier: Apache-2.0

// Package inline finds what debug information adds to a frame: contract 10.1, and of BPF programs 3.6. It knows no
// profile format.
//
// It is given a symbol of an image, an address in it, and the packs that are open. It returns a [Chain]: the
// source line at the address, and the functions that the compiler inlined there, each with the line of the
// call. A pack never decides which function a frame is in. If its outermost function is not the symbol's, it
// adds nothing.
//
//	address in vfs_read          Chain
//	                             fput_many       fs/file_table.c:340    inlined
//	                             fdput           include/linux/file.h:43    inlined
//	                             vfs_read        fs/read_write.c:474    the symbol
//
// # The one idea
//
// Most addresses of a message were in the message before, and most chains end in the same calls. So what packs
// said is remembered from one message to the next, and a chain is a path in a tree: each line points to the line
// that it was inlined into. Equal chains are the same path, and can be compared as numbers.
package inline
