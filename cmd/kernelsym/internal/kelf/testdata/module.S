// A module in small: code in sections that are laid out, dropped, aligned, and not code.
	.section .modinfo, "a"
	.asciz "license=GPL"
	.asciz "name=kelf_test"
	.asciz "vermagic=6.12.0-test SMP mod_unload "

	.section .note.gnu.build-id, "a", %note
	.balign 4
	.long 4, 8, 3
	.asciz "GNU"
	.byte 0xde, 0xad, 0xbe, 0xef, 0x01, 0x23, 0x45, 0x67

	.section .init.text, "ax"
	.globl init_module
init_module:
	.skip 24

	.section .text.unlikely, "ax"
	.skip 3

	.text
	.balign 16
	.globl run
run:
	.skip 20

	.section .exit.text, "ax"
	.balign 8
	.globl cleanup_module
cleanup_module:
	.skip 8

	.section .debug_addr
	.quad run + 4
	.quad init_module
	.quad cleanup_module + 1
	.quad config
	.long .Ldata - .debug_addr
.Ldata:

	.data
config:
	.quad 0
