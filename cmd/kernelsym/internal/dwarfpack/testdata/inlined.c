// A module in small, with functions that are inlined into one another. Its test finds the
// lines by their comments, the addresses by the marks.
#include "inlined.h"

int sink;

INLINE void middle(int n)
{
	if (n > 2) {
		int twice = 2 * n;
		leaf(twice); // call of leaf
	}
	MARK(middle); // in middle
}

__attribute__((used, noinline)) int outer(int n)
{
	MARK(outer); // in outer
	middle(n); // call of middle
	return sink;
}

INLINE void last(void)
{
	MARK(last); // in last
}

__attribute__((used, noinline, section(".exit.text"))) void in_exit(void)
{
	MARK(exit); // in in_exit
	last(); // call of last
}

__attribute__((used, noinline, section(".init.text"))) void in_init(void)
{
	MARK(init); // in in_init
	sink++;
}

#ifdef MODULE
static const char __UNIQUE_ID_intree534[] __attribute__((section(".modinfo"), used)) =
	"name=inlined\0vermagic=6.12.0-test SMP"
#ifndef OUT_OF_TREE
	"\0intree=Y"
#endif
	;
static const struct { int owner, length, type; char name[4]; unsigned char id[8]; } note
	__attribute__((section(".note.gnu.build-id"), used)) = { 4, 8, 3, "GNU", "\1\2\3\4\5\6\7" };
#endif
