// A core kernel in small: code between the symbols that say where it lies.

asm(".text\n"
    ".globl _text, _stext\n"
    "_text:\n"
    "_stext:\n"
    ".skip 16\n");

static inline __attribute__((always_inline)) int inner(volatile int *x)
{
	return *x * 3;
}

int start_kernel(volatile int *x)
{
	return inner(x) + 1;
}

asm(".text\n"
    ".globl _etext\n"
    "_etext:\n");

__attribute__((section(".rodata"))) const char linux_banner[] = "Linux version 6.12.0-test (builder) #1 SMP";
