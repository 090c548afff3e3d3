/* In a file of its own, so that lines of two files stand in one function. */

static inline __attribute__((always_inline)) unsigned int mix(unsigned int h, unsigned int v)
{
	h ^= v;
	h *= 0x9e3779b1;
	return h ^ h >> 15;
}
