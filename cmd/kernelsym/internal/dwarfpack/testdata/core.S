// What makes a file of C the core kernel in small: the symbols at the ends of its code.
	.section .first.text, "ax"
	.globl _text, _stext
_text:
_stext:
	.skip 16
	.section .last.text, "ax"
	.globl _etext
	nop
_etext:
