// Enough of the same that compressed debug information is smaller.
#define F(n) int f##n(int a, int b, int c) { int d = a + n; return b * d + c; }
#define G(n) F(n##0) F(n##1) F(n##2) F(n##3) F(n##4) F(n##5) F(n##6) F(n##7) F(n##8) F(n##9)
G(1) G(2) G(3) G(4) G(5)

static const char modinfo[] __attribute__((section(".modinfo"), used)) = "name=repeated";
static const struct { int a, b, c; char name[4]; unsigned char id[8]; } note
	__attribute__((section(".note.gnu.build-id"), used)) = { 4, 8, 3, "GNU", "abcdefg" };
