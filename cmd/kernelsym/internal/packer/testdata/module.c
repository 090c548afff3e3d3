// A module in small: with what the kernel reads of one, and a function that was inlined.

asm(".pushsection .modinfo, \"a\"\n"
    ".asciz \"name=" NAME "\"\n"
    ".asciz \"vermagic=6.12.0-test SMP mod_unload \"\n"
    ".asciz \"intree=Y\"\n"
    ".popsection\n"
    ".pushsection .note.gnu.build-id, \"a\", %note\n"
    ".balign 4\n"
    ".long 4, 8, 3\n"
    ".asciz \"GNU\"\n"
    ".quad " ID "\n"
    ".popsection\n");

static inline __attribute__((always_inline)) int inner(volatile int *x)
{
	return *x * 3;
}

int outer(volatile int *x)
{
	return inner(x) + 1;
}
