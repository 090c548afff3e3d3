// A core kernel with symbols that share an address, and nothing of which it says where they
// come in kallsyms.
	.text
	.globl _text, _stext, _etext, zz_first, aa_second, __aa_third, weak_last, __aa_end
_text:
_stext:
	.skip 16
zz_first:
aa_second:
_underscored:
__aa_third:
__aa_end:
	.weak weak_last
weak_last:
	.skip 16
__start_only:
	.skip 16
kallsyms_show_value:
	.skip 16
__efistub_left_out:
far_veneer:
	.skip 16
weak_alone:
	.weak weak_alone
	.skip 16
_etext:

	.data
data_is_no_code:
	.quad 0
