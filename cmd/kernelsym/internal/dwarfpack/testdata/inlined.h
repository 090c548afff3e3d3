// A function of a header that is inlined into functions of inlined.c.
#define INLINE static inline __attribute__((always_inline))

// MARK puts a symbol where its line is, in one file.
#ifndef MARK
#define MARK(name) __asm__ volatile(".globl mark_" #name "\nmark_" #name ": nop")
#endif

extern int sink;

INLINE void leaf(int n)
{
	sink += n;
	MARK(leaf); // in leaf
}
