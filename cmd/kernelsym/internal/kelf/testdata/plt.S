// A module of arm64 whose .plt, which the kernel sizes when it loads the module, is before its code.
	.section .modinfo, "a"
	.asciz "name=plt"
	.asciz "vermagic=6.12.0-test SMP mod_unload "

	.section .note.gnu.build-id, "a", %note
	.balign 4
	.long 4, 8, 3
	.asciz "GNU"
	.byte 0xde, 0xad, 0xbe, 0xef, 0x01, 0x23, 0x45, 0x67

	.section .fixup.text, "ax"
	.skip 8

	.section .plt, "ax"
	.skip 1

	.section .text.run, "ax"
	.balign 16
	.globl run
run:
	.skip 20

	.section .exit.text, "ax"
	.balign 8
stop:
	.skip 8

	.section .text.hot, "ax"
	.balign 64
	.skip 4
