// The core kernel in small: the symbols that say where its code lies.
	.text
	.globl _text, _stext, _etext
_text:
	.skip 16
_stext:
	.skip 16
__entry_text_start:
	.skip 16
__entry_text_end:
asm_fred_entrypoint_kernel:
	.skip 16
__x86_indirect_thunk_rax:
	.skip 32
__x86_indirect_thunk_rbx:
	.skip 32
start_kernel:
	.skip 16
srso_safe_ret:
	.skip 8
copy_from_user:
	.skip 8
_etext:

	.section .init.text, "ax"
_sinittext:
	.skip 32
_einittext:
	.skip 32

	.section .rodata, "a"
	.type linux_banner, %object
linux_banner:
	.asciz "Linux version 6.12.0-test (builder) #1 SMP"
	.size linux_banner, . - linux_banner
