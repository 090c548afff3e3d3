// Another file that has the function of the header inlined, so that dwz has something to
// move to a unit that both refer to.
#define MARK(name)
#include "inlined.h"

__attribute__((used, noinline)) int other(int n)
{
	leaf(n);
	return sink;
}
