// An object file of neither a kernel nor a module.
	.section .note.gnu.build-id, "a", %note
	.balign 4
	.long 4, 8, 3
	.asciz "GNU"
	.byte 0xde, 0xad, 0xbe, 0xef, 0x76, 0x54, 0x32, 0x10
	.text
	.globl run
run:
	.skip 16
