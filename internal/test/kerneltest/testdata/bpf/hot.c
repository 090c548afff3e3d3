/*
 * A program that keeps a CPU busy, with functions that are JITed each on its own.
 *
 * hot.o is made from it by
 *	clang -O2 -g -mcpu=v3 -target bpf -fdebug-prefix-map="$PWD"=. -c hot.c
 */

#include "hot.h"

struct __sk_buff {
	unsigned int len;
};

#define SEC(name) __attribute__((section(name), used))

/* Not static: the verifier looks at a global function once, not at each call. */
__attribute__((noinline)) unsigned int stir(unsigned int h, unsigned int n)
{
	for (unsigned int i = 0; i < 32 + (n & 31); i++)
		h = mix(h, i);
	return h;
}

__attribute__((noinline)) unsigned int shake(unsigned int h, unsigned int n)
{
	for (unsigned int i = 0; i < 16 + (n & 15); i++)
		h = mix(h + 1, i);
	return h;
}

SEC("socket")
int kernelsym_test_hot_program(struct __sk_buff *skb)
{
	unsigned int h = skb->len;

	for (int i = 0; i < 16; i++) {
		h = stir(h, h);
		h = shake(h, h >> 8);
	}
	return h;
}

char _license[] SEC("license") = "GPL";
